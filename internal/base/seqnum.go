package base

// A SeqNum is a transaction's position in the commit order. All writes of one
// transaction carry the same number. The first transaction of a database has
// number 1; 0 means "before everything".
type SeqNum uint64

// SeqNumMax is the largest sequence number. 48 bits last nine years at a million
// commits a second. The reader slots use the other 16 bits of a word.
const SeqNumMax SeqNum = 1<<48 - 1
