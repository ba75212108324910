package prose

// The ceilings are the counts of the tree. Lower a ceiling whenever the test
// asks for it, and never raise one.
//
// The targets are 60 words of dialect in comments and 40 in documents.
var (
	// CommentWords bounds the words of dialect in comments of Go files.
	CommentWords = Ceiling{Name: "words of dialect in comments", Max: 465, Slack: 10}
	// DocumentWords bounds the words of dialect in documents.
	DocumentWords = Ceiling{Name: "words of dialect in documents", Max: 27, Slack: 10}
	// LongSentences bounds the sentences of more than MaxWords words in
	// documentation of exported identifiers and in documents.
	LongSentences = Ceiling{Name: "sentences that are too long", Max: 198, Slack: 20}
)

// MaxWords is the number of words that a sentence may have.
const MaxWords = 30
