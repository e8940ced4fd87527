from antiphon.web.page_reviewer import ask_on_page as ask_on_page
