// Package residency decides which mapped files give their memory back.
//
// The kernel reclaims mapped pages of files when other users need memory; until
// then they make reads fast. So pages in use stay, however many they are, while
// the machine has memory. Idle files give their pages back as soon as all mapped
// pages together exceed the budget. When memory is short, the budget also
// applies to files in use.
//
// Whole files give memory back, because tracking pages would slow down every
// read. A file counts as idle only after several rounds without a use.
package residency
