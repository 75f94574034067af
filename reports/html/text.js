// Texts of models and datasets: they are inserted as text nodes only, with invisible characters and
// those that change the direction of text written as escapes.

const INVISIBLE = new RegExp("[\\u0000-\\u0008\\u000b-\\u001f\\u007f-\\u009f\\u00ad\\u034f\\u061c\\u180e" +
    "\\u200b\\u200e\\u200f\\u2028-\\u202e\\u2060-\\u206f\\ufeff\\ufff9-\\ufffb\\u{e0000}-\\u{e007f}]", "gu");

// Characters of a text that are shown at first, and those before its first difference.
const SHOWN = 1200, SHOWN_BEFORE = 200;

function escaped(character) {
  const code = character.codePointAt(0).toString(16);
  return code.length > 4 ? `\\u{${code}}` : `\\u${code.padStart(4, "0")}`;
}

function visibleText(text) {
  return text.replace(INVISIBLE, escaped);
}

function appendText(parent, text) {
  let end = 0;
  for (const {0: character, index} of text.matchAll(INVISIBLE)) {
    parent.append(text.slice(end, index),
                  element("span", {className: "invisible", textContent: escaped(character)}));
    end = index + character.length;
  }
  parent.append(text.slice(end));
}

// The index of the first word that differs; -1 if the texts are equal.
function firstDifference(text, other) {
  if (text === other) return -1;
  let at = 0;
  while (at < text.length && at < other.length && text[at] === other[at]) at++;
  const inWord = (character) => character !== undefined && /\S/.test(character);
  if (inWord(text[at]) || inWord(other[at])) {
    while (at > 0 && inWord(text[at - 1])) at--;
  }
  return at;
}

// Appends text[begin, end) with the word at `mark` marked.
function appendPart(parent, text, begin, end, mark) {
  if (mark < 0) {
    appendText(parent, text.slice(begin, end));
    return;
  }
  const word = text.slice(mark).match(/^\s*\S*/)[0].slice(0, SHOWN);
  const same = element("span", {className: "same"});
  appendText(same, text.slice(begin, mark));
  const marked = element("mark", {title: "first difference"});
  if (word.trim() === "") marked.textContent = "(end)";
  else appendText(marked, word);
  parent.append(same, marked);
  appendText(parent, text.slice(mark + word.length, Math.max(end, mark + word.length)));
}

// A block of text, shortened if it is long; `mark`: the index of a word to mark, or -1.
function textBlock(text, mark = -1) {
  const block = element("div", {className: "text", dir: "auto"});
  const begin = mark > SHOWN - SHOWN_BEFORE ? mark - SHOWN_BEFORE : 0;
  const end = Math.min(text.length, begin + SHOWN);
  if (begin > 0) block.append("… ");
  appendPart(block, text, begin, end, mark);
  if (begin === 0 && end === text.length) return block;
  const all = element("button", {type: "button", className: "more"},
                      `Show all ${text.length.toLocaleString("en")} characters`);
  all.addEventListener("click", () => {
    block.replaceChildren();
    appendPart(block, text, 0, text.length, mark);
  });
  block.append(end < text.length ? "… " : " ", all);
  return block;
}
