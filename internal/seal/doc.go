// Package seal encrypts files and keeps the keys of a database.
//
// # Keys
//
//	master key --wraps--> data keys --HKDF, salt and name--> key of one use of a file
//
// A Provider supplies master keys. The file KEYS holds the data keys, sealed with a key
// that is derived from the master key. A new data key replaces the old one for new files
// after a while. Another master key seals KEYS again and leaves all other files alone.
//
// Each file, and each use of a recycled log segment, has a key of its own. A random salt
// of 32 bytes in the file and the name of the file go into its derivation. So page and
// frame numbers are safe nonces, whatever a crash repeats.
//
// # Sealed files
//
// Tables and value files are sealed in pages of 4096 bytes with AES-256-GCM. A sealed
// page lies where its plain page would lie. Behind the last page follow:
//
//	size            field
//	16 × pages      the tags of the pages
//	24 × runs       the runs: which pages were sealed more than once; see run
//	88              the footer; see footer
//
// The nonce of a page is its number and how often it was sealed before. The tag of the
// footer authenticates the length, the key, the salt, and the runs. So bytes that were
// changed, moved, cut off, or taken from another file or an older state do not verify.
//
// A FS seals tables and value files when they are created and decrypts them when they
// are read; see FS. The log and the manifest seal their frames; package record does that
// with the ciphers of a Keys.
//
// # Memory
//
// A Mapping of a sealed file is memory of the process. Populate decrypts pages into it,
// and they stay until Close: callers borrow them. Memory counts them for all files.
package seal
