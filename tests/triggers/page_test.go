package main

import (
	"os"
	"path/filepath"
	"testing"
)

const root = "../.."

func TestPages(t *testing.T) {
	pages, err := newPages(root)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range pages {
		now, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		if string(now) != want {
			t.Errorf("%s is stale: `go run ./tests/triggers` writes it anew", name)
		}
	}
}
