// Package payload encodes and decodes a transaction as the log stores it.
package payload
