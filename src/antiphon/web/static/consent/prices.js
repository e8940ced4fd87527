// The price follows the model that is chosen: beside the button, on it, and wherever else it stands.
document.addEventListener("input", (event) => {
  const pick = event.target.closest?.("[data-models]");
  if (!pick) return;
  const { most, name } = pick.selectedOptions[0].dataset;
  const place = pick.closest("#detail, .detail, main");
  // Panels with a choice of their own keep theirs.
  const all = (named) => [...place.querySelectorAll(named)].filter((each) => !each.closest(".further"));
  for (const each of all("[data-price]")) each.textContent = most;
  for (const each of all("[data-answers]")) each.textContent = name;
  for (const each of place.querySelectorAll("[data-of-first]")) each.hidden = pick.selectedIndex !== 0;
});
