print("text of a page")
