// Package inputs tells Go's test cache which files a test depends on.
//
// The cache knows the packages that a test imports and the files that it opens. It does not know
// the sources of a program that the test builds and runs. A test that does so calls [Declare], or
// its result would be taken from the cache after those sources have changed.
package inputs

import (
	"io/fs"
	"path/filepath"
	"testing"
)

// DeclareInputs makes the results of the package's tests depend on the files at or below the paths,
// which are relative to root.
func DeclareInputs(t testing.TB, root string, paths ...string) {
	t.Helper()
	for _, path := range paths {
		// The cache records every folder that is read, with the sizes and times of the files in it.
		err := filepath.WalkDir(filepath.Join(root, path),
			func(_ string, _ fs.DirEntry, err error) error { return err })
		if err != nil {
			t.Fatal(err)
		}
	}
}
