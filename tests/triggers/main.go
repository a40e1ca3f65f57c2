// Command triggers writes docs/triggers.md, and the table of functions in docs/cloud.md: what
// invokes each function. It takes it from template.yaml:
//
//	go run ./tests/triggers
//
// TestPages fails if a page is not what this program writes.
package main

import (
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	pages, err := newPages(".")
	if err == nil {
		for name, text := range pages {
			if err = os.WriteFile(filepath.FromSlash(name), []byte(text), 0o644); err != nil {
				break
			}
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "writing the pages about triggers:", err)
		os.Exit(1)
	}
}
