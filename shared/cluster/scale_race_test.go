//go:build race

package cluster_test

func init() { raced = true }
