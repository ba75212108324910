//go:build !linux

package measure

import "errors"

// Evict is not possible on this system.
func Evict(string) error {
	return errors.New("dropping cached file pages is implemented for Linux only")
}
