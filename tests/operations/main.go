// Command operations writes docs/operations.md: every operation and parameter of the ECS API and of
// the EKS API, served or refused, and why. It takes them from botocore's service models and from
// the tables by which package ecsapi and package eksapi answer:
//
//	go run ./tests/operations
//
// TestPage fails if the page is not what this program writes.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"berth/tests/servicemodel"
)

func main() {
	if err := writePage("."); err != nil {
		fmt.Fprintln(os.Stderr, "writing docs/operations.md:", err)
		os.Exit(1)
	}
}

// pagePath is where the page is in the repository.
const pagePath = "docs/operations.md"

func writePage(root string) error {
	models, err := servicemodel.Load(root)
	if err != nil {
		return err
	}
	page, err := newPage(root, models)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(root, pagePath), []byte(page), 0o644)
}
