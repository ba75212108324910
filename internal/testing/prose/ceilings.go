package prose

// The ceilings are the counts of the tree. Lower a ceiling whenever the test
// asks for it, and never raise one.
//
// The tree has no findings. What a ceiling of 0 forbids stays forbidden.
var (
	// CommentWords bounds the words of dialect in comments of Go files.
	CommentWords = Ceiling{Name: "words of dialect in comments", Max: 0, Slack: 3}
	// DocumentWords bounds the words of dialect in documents.
	DocumentWords = Ceiling{Name: "words of dialect in documents", Max: 0, Slack: 3}
	// LongSentences bounds the sentences of more than MaxWords words in
	// documentation of exported identifiers and in documents.
	LongSentences = Ceiling{Name: "sentences that are too long", Max: 0, Slack: 5}
)

// MaxWords is the number of words that a sentence may have.
const MaxWords = 25
