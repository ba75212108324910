package prose

import (
	"fmt"
	"regexp"
	"strings"
	"unicode"
)

var (
	// dialectWords are the words that the house style replaces by a named actor
	// or a standard term.
	dialectWords = regexp.MustCompile(`(?i)\b(?:who|whoever|somebody|nobody|in\s+vain|the\s+work\s+behind)\b`)
	codeSpan     = regexp.MustCompile("`[^`\n]*`")
	link         = regexp.MustCompile(`!?\[([^\]]*)\]\([^)]*\)`)
	listItem     = regexp.MustCompile(`^\s*(?:[-*+]|\d+[.)])\s+`)
	// sentenceEnd is a full stop, a question mark or an exclamation mark, with what closes
	// behind it. A space or the end of the text follows.
	sentenceEnd = regexp.MustCompile(`[.!?][)\]"'*_]*(?:\s+|$)`)
)

// MaxWords is the number of words that a sentence may have.
const MaxWords = 25

// contextSize is the number of bytes that a finding shows on either side of a
// word.
const contextSize = 30

// dialect returns the words of dialect in a text, outside of code spans, each
// with what stands around it.
func dialect(text string) []string {
	text = codeSpan.ReplaceAllString(text, "code")
	var found []string
	for _, at := range dialectWords.FindAllStringIndex(text, -1) {
		around := text[max(0, at[0]-contextSize):min(len(text), at[1]+contextSize)]
		found = append(found, strings.ToValidUTF8(strings.Join(strings.Fields(around), " "), ""))
	}
	return found
}

// longSentences returns the sentences of a paragraph that have more than
// MaxWords words, each as its length and its beginning.
func longSentences(paragraph string) []string {
	text := codeSpan.ReplaceAllString(paragraph, "code")
	text = link.ReplaceAllString(text, "$1")
	var long []string
	for text != "" {
		sentence := text
		if end := sentenceEnd.FindStringIndex(text); end != nil {
			sentence = text[:end[1]]
		}
		text = text[len(sentence):]
		if n := words(sentence); n > MaxWords {
			long = append(long, fmt.Sprintf("%d words: %.60s…", n, strings.Join(strings.Fields(sentence), " ")))
		}
	}
	return long
}

// words counts the words of a sentence: what stands between spaces and has a
// letter or a digit.
func words(sentence string) int {
	n := 0
	for w := range strings.FieldsSeq(sentence) {
		if strings.ContainsFunc(w, func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }) {
			n++
		}
	}
	return n
}

// A paragraph is a piece of running text: a paragraph proper, a list item, a
// heading, or a row of a table.
type paragraph struct {
	text  string
	line  int // of its beginning, from 1
	table bool
}

// paragraphsOfMarkdown returns the paragraphs of a document, without its
// blocks of code.
func paragraphsOfMarkdown(src string) []paragraph {
	var c collector
	fence := ""
	for line := range strings.Lines(src) {
		c.line++
		trimmed := strings.TrimSpace(line)
		switch {
		case fence != "":
			if strings.HasPrefix(trimmed, fence) {
				fence = ""
			}
		case strings.HasPrefix(trimmed, "```"), strings.HasPrefix(trimmed, "~~~"):
			fence = trimmed[:3]
			c.end()
		case trimmed == "":
			c.end()
		case strings.HasPrefix(trimmed, "|"):
			c.end()
			c.add(trimmed)
			c.found[len(c.found)-1].table = true
			c.end()
		case strings.HasPrefix(trimmed, "#"):
			c.end()
			c.add(trimmed)
			c.end()
		case listItem.MatchString(line):
			c.end()
			c.add(listItem.ReplaceAllString(line, ""))
			c.list = true
		case !c.open && !c.list && (strings.HasPrefix(line, "    ") || strings.HasPrefix(line, "\t")):
			// a block of code
		default:
			if line[0] != ' ' && line[0] != '\t' {
				c.list = false
			}
			c.add(trimmed)
		}
	}
	return c.found
}

// paragraphsOfComment returns the paragraphs of a documentation comment,
// without its blocks of code.
func paragraphsOfComment(text string) []paragraph {
	var c collector
	for line := range strings.Lines(text) {
		c.line++
		trimmed := strings.TrimSpace(line)
		indented := line[0] == ' ' || line[0] == '\t'
		switch {
		case trimmed == "":
			c.end()
		case listItem.MatchString(line):
			c.end()
			c.add(listItem.ReplaceAllString(line, ""))
			c.list = true
		case indented && !(c.open && c.list):
			c.end() // a block of code
		default:
			if !indented {
				c.list = false
			}
			c.add(trimmed)
		}
	}
	return c.found
}

// A collector puts the lines of paragraphs together.
type collector struct {
	found []paragraph
	line  int
	open  bool // whether the next line belongs to the last paragraph
	list  bool // whether the last paragraph is a list item
}

// end ends the paragraph.
func (c *collector) end() { c.open = false }

// add adds a line to the paragraph, or begins one.
func (c *collector) add(text string) {
	text = strings.TrimSpace(text)
	if c.open {
		last := &c.found[len(c.found)-1]
		last.text += " " + text
		return
	}
	c.found = append(c.found, paragraph{text: text, line: c.line})
	c.open = true
}
