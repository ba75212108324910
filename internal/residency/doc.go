// Package residency decides which mapped files give their memory back.
//
// Mapped pages of files are the kernel's to reclaim: it takes them when others
// need memory, and until then they make reads fast. So what is in use stays,
// whatever its size, as long as the machine has memory. What nobody has used
// for a while goes back as soon as all of it together is over the budget, and
// when memory is short the budget holds for what is in use as well.
//
// Memory is given back by whole files: to know which pages are in use would
// cost every read more than it is worth. A file has a second chance in each
// round: it must have been left alone for several of them to count as idle.
package residency
