// What scripts add to the page: sorting, copying, the theme, charts to point at. All of it can be missing.
(() => {
  "use strict";
  const root = document.documentElement;

  const button = (text, label, act) => {
    const made = document.createElement("button");
    made.type = "button";
    made.textContent = text;
    if (label) made.setAttribute("aria-label", label);
    made.addEventListener("click", act);
    return made;
  };

  // Theme: follows the system until somebody chooses.
  const themes = ["auto", "light", "dark"];
  const stored = () => { try { return localStorage.getItem("profiler-doctor-theme"); } catch { return null; } };
  const store = (theme) => { try { localStorage.setItem("profiler-doctor-theme", theme); } catch { /* private mode */ } };
  const setTheme = (theme) => {
    if (theme === "auto") root.removeAttribute("data-theme"); else root.dataset.theme = theme;
    chooser.textContent = `Theme: ${theme}`;
    draw();
  };
  let theme = themes.includes(stored()) ? stored() : "auto";
  const chooser = button("", "", () => {
    theme = themes[(themes.indexOf(theme) + 1) % themes.length];
    store(theme);
    setTheme(theme);
  });
  chooser.className = "theme";
  document.querySelector("header.top").append(chooser);

  // Tables: each heading sorts; the order of the page is the order by time.
  const valueOf = (row, column) => {
    const cell = row.cells[column];
    return cell.dataset.value === undefined ? cell.textContent : Number(cell.dataset.value);
  };
  const sort = (table, column, heading) => {
    const descending = heading.getAttribute("aria-sort") !== "descending";
    const rows = [...table.tBodies[0].rows];
    rows.sort((one, other) => {
      const [a, b] = [valueOf(one, column), valueOf(other, column)];
      return (typeof a === "number" ? a - b : a.localeCompare(b)) * (descending ? -1 : 1);
    });
    table.tBodies[0].append(...rows);
    for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
    heading.setAttribute("aria-sort", descending ? "descending" : "ascending");
  };
  for (const table of document.querySelectorAll("table.sortable")) {
    [...table.tHead.rows[0].cells].forEach((heading, column) => {
      const name = heading.textContent;
      heading.textContent = "";
      heading.append(button(name, "", () => sort(table, column, heading)));
    });
  }

  // Snippets: a button that copies; without the clipboard's permission the text is selected instead.
  const copied = async (code, pressed) => {
    try {
      await navigator.clipboard.writeText(code.textContent);
      pressed.textContent = "Copied";
    } catch {
      getSelection().selectAllChildren(code);
      pressed.textContent = "Selected";
    }
    setTimeout(() => { pressed.textContent = "Copy"; }, 2000);
  };
  for (const snippet of document.querySelectorAll(".snippet")) {
    const code = snippet.querySelector("code");
    const copy = button("Copy", "", () => copied(code, copy));
    copy.className = "copy";
    copy.setAttribute("aria-live", "polite");
    snippet.append(copy);
  }

  // Print: everything that is folded is unfolded.
  addEventListener("beforeprint", () => {
    for (const folded of document.querySelectorAll("details:not([open])")) {
      folded.open = true;
      folded.dataset.folded = "";
    }
  });
  addEventListener("afterprint", () => {
    for (const unfolded of document.querySelectorAll("details[data-folded]")) unfolded.open = false;
  });

  // Charts: plotly is unpacked once the page stands, and takes the place of the static shapes.
  const lives = [...document.querySelectorAll(".live")];
  const draw = () => {
    if (!window.Plotly) return;
    const style = getComputedStyle(root);
    const coloured = (key, value) =>
      /color$/i.test(key) && typeof value === "string" && value.startsWith("--")
        ? style.getPropertyValue(value).trim() || "rgba(0,0,0,0)"
        : value;
    for (const live of lives) {
      const figure = JSON.parse(document.getElementById(`figure-${live.dataset.figure}`).textContent, coloured);
      figure.layout.font.family = getComputedStyle(document.body).fontFamily;
      live.hidden = false;
      live.parentElement.classList.add("enhanced");
      const zooms = live.dataset.figure === "timeline";
      Plotly.react(live, figure.data, figure.layout, { displayModeBar: false, responsive: true, scrollZoom: zooms });
      if (zooms && !live.dataset.keys) keys(live, figure.layout.xaxis.range);
      if (zooms) showPlace(live);
    }
  };

  // The timeline: the wheel zooms, dragging moves; so do + and -, the arrows, and 0 for all of it.
  const keys = (live, whole) => {
    live.dataset.keys = "";
    live.tabIndex = 0;
    live.addEventListener("keydown", (event) => {
      const [from, to] = live._fullLayout.xaxis.range;
      const wide = to - from;
      const range = {
        "+": [from + wide / 4, to - wide / 4], "=": [from + wide / 4, to - wide / 4],
        "-": [from - wide / 2, to + wide / 2], "0": whole,
        ArrowLeft: [from - wide / 4, to - wide / 4], ArrowRight: [from + wide / 4, to + wide / 4],
      }[event.key];
      if (!range || event.ctrlKey || event.metaKey) return;
      event.preventDefault();
      Plotly.relayout(live, { "xaxis.range": range });
    });
  };

  // A finding's place in the timeline: as wide again on both sides, and never less than 20 microseconds.
  let place = null;
  const showPlace = (live) => {
    if (!place || !window.Plotly || !live._fullLayout) return;
    const [from, to] = place;
    const around = Math.max(to - from, 0.02);
    const color = getComputedStyle(root).getPropertyValue("--accent").trim();
    const marked = { type: "rect", x0: from, x1: to, y0: 0, y1: 1, yref: "paper", fillcolor: color, opacity: 0.18, line: { width: 0 } };
    Plotly.relayout(live, { "xaxis.range": [from - around, to + around], shapes: [marked] });
  };
  for (const link of document.querySelectorAll("a[data-from]")) {
    link.addEventListener("click", () => {
      place = [Number(link.dataset.from), Number(link.dataset.to)];
      const live = lives.find((each) => each.dataset.figure === "timeline");
      if (!live) return;
      showPlace(live);
      setTimeout(() => live.focus({ preventScroll: true }));  // after the link has moved the focus
    });
  }
  const unpack = async () => {
    const packed = document.getElementById("plotly");
    if (!packed || !lives.length || !("DecompressionStream" in window)) return;
    const bytes = Uint8Array.from(atob(packed.textContent), (char) => char.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
    const script = document.createElement("script");
    script.textContent = await new Response(stream).text();
    document.head.append(script);
    packed.remove();
    draw();
  };
  setTheme(theme);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  const whenIdle = window.requestIdleCallback || ((act) => setTimeout(act, 200));
  addEventListener("load", () => whenIdle(() => unpack().catch(() => { /* the static charts stay */ })));
})();
