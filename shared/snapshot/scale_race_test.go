//go:build race

package snapshot_test

func init() { raced = true }
