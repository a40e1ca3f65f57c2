package house

import (
	"go/ast"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var glossaryName = regexp.MustCompile("`([a-z]+(?:/[a-z]+)*)\\.([A-Z][A-Za-z]*)(?:\\.[A-Za-z]+)?`")

// The types and functions that the glossary gives as the place of a term exist.
func TestGlossary(t *testing.T) {
	terms, _, found := strings.Cut(read(t, "docs/glossary.md"), "## Words we do not use")
	if !found {
		t.Fatal("docs/glossary.md has no list of words that are not used")
	}
	all := sources(t)
	for _, m := range glossaryName.FindAllStringSubmatch(terms, -1) {
		folder, name := "shared/"+m[1], m[2]
		if !slices.ContainsFunc(all, func(s source) bool { return path.Dir(s.path) == folder && s.declares(name) }) {
			t.Errorf("docs/glossary.md names %s.%s, which %s does not declare", m[1], name, folder)
		}
	}
}

var betterName = regexp.MustCompile("`(?:[a-z]+\\.)?([A-Za-z]+)`")

// The names that the glossary gives in place of others are names of the code.
func TestGlossaryNamesWhatIsUsed(t *testing.T) {
	_, words, _ := strings.Cut(read(t, "docs/glossary.md"), "## Words we do not use")
	used := map[string]bool{}
	for _, s := range sources(t) {
		ast.Inspect(s.file, func(n ast.Node) bool {
			if name, ok := n.(*ast.Ident); ok {
				used[name.Name] = true
			}
			return true
		})
	}
	for row := range strings.Lines(words) {
		cells := strings.Split(row, "|")
		if len(cells) < 3 {
			continue
		}
		for _, m := range betterName.FindAllStringSubmatch(cells[2], -1) {
			if !used[m[1]] {
				t.Errorf("docs/glossary.md names %s, which nothing in the code has", m[1])
			}
		}
	}
}

// declares reports whether the file declares a name, or a method of that name.
func (s source) declares(name string) bool {
	if node, _ := find(s.file, name); node != nil {
		return true
	}
	return slices.ContainsFunc(methodNames(s.file), func(m string) bool { return strings.HasSuffix(m, "."+name) })
}
