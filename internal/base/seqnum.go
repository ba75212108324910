package base

// A SeqNum is the place of a transaction in the commit order. All writes of
// one transaction carry the same number. The first transaction of a database
// is number 1; 0 is "before everything".
type SeqNum uint64

// SeqNumMax is the largest sequence number. 48 bits are a million commits a
// second for nine years; the other 16 bits of a word are used by the reader
// slots.
const SeqNumMax SeqNum = 1<<48 - 1
