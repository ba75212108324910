// Package scripts tests the scripts of .ci.
package scripts
