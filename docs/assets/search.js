// The search reads "-" before a word as "without": a typed "--param" becomes "param".
document.addEventListener(
  "input",
  ({ target }) => {
    if (target.matches(".md-search__input"))
      target.value = target.value.replace(/(^|\s)--(?=\w)/g, "$1");
  },
  true,
);
