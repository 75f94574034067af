// From an entry of a table to its dialogues: questions, references, and the answers of all methods.

// Turns that are shown at once.
const SHOWN_TURNS = 20;

// The dialogues of an experiment, parsed when they are first needed.
class Dialogues {
  constructor(source) {
    this.source = source;
  }

  get data() {
    this.parsed ??= JSON.parse(this.source.textContent);
    return this.parsed;
  }

  text(index) {
    return this.data.texts[index];
  }

  cell(index) {
    const [model, dataset, position, method, history, answers] = this.data.cells[index];
    return {model, dataset, position, method, history, answers};
  }

  // The turns in which one of `cells` was asked; `metric`: the index of the score to show.
  turns({cells, turn, dialogue}, metric) {
    const wanted = new Set(cells);
    const out = [];
    for (const [id, number, question, references, answers] of this.data.turns) {
      if (turn !== undefined && number !== turn) continue;
      if (!answers.some(([cell]) => wanted.has(cell))) continue;
      if (dialogue !== undefined && this.text(id) !== dialogue) continue;
      out.push({
        dialogue: this.text(id),
        turn: number,
        question: this.text(question),
        references: references.map((index) => this.text(index)),
        settings: this.cell(answers[0][0]),
        answers: answers.map(([cell, answer, scores, tokens, limited, status, error]) => ({
          method: this.cell(cell).method,
          isOpened: wanted.has(cell),
          text: answer < 0 ? null : this.text(answer),
          score: scores[metric] ?? "",
          tokens,
          limited,
          status,
          error: error < 0 ? "" : this.text(error),
        })),
      });
    }
    return out;
  }
}

const isFailed = (answer) => answer.status !== "ok" && answer.status !== "no_value" &&
    answer.status !== "pending";

// What the list can be limited to, given a turn, its opened answers and the one compared with.
const KINDS = {
  "all": () => true,
  "different answers": (opened, other) => opened.some((answer) => answer.text !== other?.text),
  "different scores": (opened, other) => opened.some((answer) => answer.score !== other?.score),
  "lower scores": (opened, other) =>
      opened.some((answer) => Number(answer.score) < Number(other?.score)),
  "failures": (opened) => opened.some(isFailed),
  "cut answers": (opened) => opened.some((answer) => answer.limited),
};

function answerRow(answer, other) {
  const body = element("td", {className: "label"});
  if (isFailed(answer)) {
    const error = element("span", {className: "alarm"});
    appendText(error, `${answer.status}: ${answer.error}`);
    body.append(error);
  } else if (answer.text === null) {
    body.append(element("span", {className: "same"}, answer.status.replace("_", " ")));
  } else {
    const compared = other && other !== answer && other.text !== null;
    const mark = compared ? firstDifference(answer.text, other.text) : -1;
    body.append(textBlock(answer.text, mark));
    if (compared && mark < 0)
      body.append(element("span", {className: "same"}, `equal to ${other.method}`));
  }
  const method = element("th", {scope: "row", className: "label"});
  appendText(method, answer.method);
  const tokens = `${answer.tokens ?? ""}${answer.limited ? " (limit)" : ""}`;
  return element("tr", {className: answer.isOpened ? "opened" : ""}, method,
                 element("td", {}, answer.score), element("td", {}, tokens), body);
}

function turnArticle(turn, compared) {
  const {model, dataset, position, history, answers} = turn.settings;
  const title = element("h3");
  appendText(title, `${dataset}, ${turn.dialogue}, turn ${turn.turn + 1}`);
  const place = element("p", {className: "note"});
  appendText(place, `Position of the question: ${position}; model ${model}, history ${history}, earlier ` +
             `answers ${answers}`);
  const head = element("tr");
  for (const [name, className] of [["method", "label"], ["score", ""], ["tokens", ""],
                                   ["answer", "label"]])
    head.append(element("th", {scope: "col", className}, name));
  const other = turn.answers.find((answer) => answer.method === compared);
  const table = element("table", {className: "text"},
                        element("caption", {}, "Answers of all methods"),
                        element("thead", {}, head),
                        element("tbody", {}, ...turn.answers.map((a) => answerRow(a, other))));
  const references = element("div", {className: "references"});
  for (const reference of turn.references) references.append(textBlock(reference));
  if (turn.references.length === 0) references.append("none");
  return element("article", {}, title, place,
                 element("h4", {}, "Question"), textBlock(turn.question),
                 element("h4", {}, "References"), references,
                 element("div", {className: "scroll", tabIndex: 0}, table));
}

// The dialog that lists the turns of an entry.
class DialogueList {
  constructor() {
    this.title = element("h2", {id: "dialogues-title"});
    this.compared = choice([], () => this.list());
    this.kind = choice(Object.keys(KINDS).map((name) => [name, name]), () => this.list());
    this.filter = element("input", {type: "search", size: 16});
    this.filter.addEventListener("input", () => this.list());
    this.status = element("span", {className: "control", role: "status"});
    this.body = element("div", {className: "turns"});
    this.more = element("button", {type: "button"}, "Show more");
    this.more.addEventListener("click", () => this.show(SHOWN_TURNS));
    const close = element("button", {type: "button", className: "close", ariaLabel: "Close"}, "×");
    close.addEventListener("click", () => this.dialog.close());
    this.dialog = element("dialog", {id: "dialogues"},
        element("header", {}, this.title, close),
        element("div", {className: "controls"}, labelled("Compared with", this.compared),
                labelled("Show", this.kind), labelled("With", this.filter), this.status),
        this.body, this.more,
        element("p", {className: "note"}, "turnbench answers STORE --dialogue ID --context also " +
                "prints what the methods have read."));
    this.dialog.setAttribute("aria-labelledby", "dialogues-title");
    document.body.append(this.dialog);
  }

  // `entry`: cells, and turn and dialogue if they are given; `baseline`: the method to compare with.
  open(title, dialogues, entry, metric, baseline) {
    this.title.replaceChildren();
    appendText(this.title, title);
    this.turns = dialogues.turns(entry, Math.max(0, dialogues.data.metrics.indexOf(metric)));
    const methods = [...new Set(this.turns.flatMap((turn) => turn.answers.map((a) => a.method)))];
    this.compared.replaceChildren(
        ...methods.map((name) => element("option", {value: name}, visibleText(name))));
    this.compared.value = methods.includes(baseline) ? baseline : methods[0] ?? "";
    this.kind.value = "all";
    this.filter.value = "";
    this.list();
    this.dialog.showModal();
    this.dialog.scrollTop = 0;
  }

  list() {
    const words = wordsOf(this.filter.value);
    this.listed = this.turns.filter((turn) => {
      const other = turn.answers.find((answer) => answer.method === this.compared.value);
      const text = [turn.dialogue, turn.question, ...turn.references,
                    ...turn.answers.map((answer) => answer.text ?? answer.error)].join(" ");
      return KINDS[this.kind.value](turn.answers.filter((a) => a.isOpened), other) &&
          matches(text, words);
    });
    this.status.textContent = `${this.listed.length} of ${this.turns.length} turns`;
    this.body.replaceChildren();
    this.show(SHOWN_TURNS);
  }

  show(count) {
    const from = this.body.children.length;
    for (const turn of this.listed.slice(from, from + count))
      this.body.append(turnArticle(turn, this.compared.value));
    this.more.hidden = this.body.children.length >= this.listed.length;
  }
}
