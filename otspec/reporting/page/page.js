const data = JSON.parse(document.getElementById("data").textContent);
const root = document.documentElement;
const night = window.matchMedia("(prefers-color-scheme: dark)");
const dark = () => (root.dataset.theme ? root.dataset.theme === "dark" : night.matches);
const views = new Map();

// Colours of the light theme in a chart, replaced on dark paper.
const onPaper = (spec) =>
  dark() ? JSON.parse(JSON.stringify(spec), (key, value) => (Object.hasOwn(data.dark, value) ? data.dark[value] : value)) : spec;

const state = (part) => {
  const off = [...part.querySelectorAll(".series [aria-pressed=false]")].map((chip) => chip.dataset.series);
  return { hidden: off, hovered: part.dataset.hovered ?? "" };
};

const tell = (part) => {
  for (const place of part.querySelectorAll(".chart")) {
    const view = views.get(place)?.view;
    if (!view) continue;
    for (const [name, value] of Object.entries(state(part))) view.signal(name, value);
    view.runAsync();
  }
};

const point = (part, series) => {
  if ((part.dataset.hovered ?? "") === series) return;
  part.dataset.hovered = series;
  tell(part);
};

const draw = async (place) => {
  const part = place.closest(".part");
  const theme = dark() ? "dark" : "light";
  views.get(place)?.finalize();
  const shown = await vegaEmbed(place, onPaper(data.charts[place.dataset.chart]), {
    config: data.themes[theme],
    renderer: "svg",
    tooltip: { theme, disableDefaultStyle: false },
    actions: { export: true, source: false, compiled: false, editor: false },
    downloadFileName: place.parentElement.querySelector("figcaption").textContent,
  });
  views.set(place, shown);
  shown.view.addEventListener("mouseover", (event, item) => point(part, item?.datum?.series ?? ""));
  shown.view.addEventListener("mouseout", () => point(part, ""));
  for (const [name, value] of Object.entries(state(part))) shown.view.signal(name, value);
  await shown.view.runAsync();
};

const drawAll = async () => {
  await Promise.all([...document.querySelectorAll(".chart")].map(draw));
  root.dataset.drawn = dark() ? "dark" : "light";
};

for (const chip of document.querySelectorAll(".series button")) {
  const part = chip.closest(".part");
  chip.addEventListener("click", () => {
    chip.setAttribute("aria-pressed", String(chip.getAttribute("aria-pressed") === "false"));
    tell(part);
  });
  chip.addEventListener("mouseenter", () => point(part, chip.dataset.series));
  chip.addEventListener("mouseleave", () => point(part, ""));
}

// Words in the order of people, with numbers in them as numbers; figures by their keys, what has none at the end.
const words = new Intl.Collator("en", { numeric: true });
const compare = (one, other, sign) => {
  if (one.dataset.key === undefined) return sign * words.compare(one.textContent, other.textContent);
  const [mine, theirs] = [one.dataset.key, other.dataset.key];
  if (mine === "" || theirs === "") return (mine === "") - (theirs === "");
  return sign * (Number(mine) - Number(theirs));
};

for (const head of document.querySelectorAll("th")) {
  head.querySelector("button").addEventListener("click", () => {
    const up = head.getAttribute("aria-sort") !== "ascending";
    for (const other of head.parentElement.children) other.setAttribute("aria-sort", "none");
    head.setAttribute("aria-sort", up ? "ascending" : "descending");
    const body = head.closest("table").tBodies[0];
    const rows = [...body.rows];
    rows.sort((one, other) => compare(one.cells[head.cellIndex], other.cells[head.cellIndex], up ? 1 : -1));
    body.append(...rows);
  });
}

document.getElementById("theme").addEventListener("click", () => {
  root.dataset.theme = dark() ? "light" : "dark";
  drawAll();
});
night.addEventListener("change", drawAll);
drawAll();
