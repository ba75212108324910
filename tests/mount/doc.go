// Package mount has what the campaigns on real file systems share: unmounting, and
// whether this machine lacks the means to mount.
package mount
