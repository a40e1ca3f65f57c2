package house

import (
	"fmt"
	"go/ast"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// oldWords are words of a private vocabulary that the glossary replaces by the field's. No name of the code contains one.
var oldWords = []string{
	"hopeful", "hopeless", "census", "shelf", "crown", "roster", "stirred", "ailment", "misfit", "leavers", "shielded",
	"vitals",
	"pulse", "crowd", "crowds", "disown", "unlist", "wish", "wishes", "fulfil", "turned", "sightings", "groupless",
	"told", "tells",
	"doubt", "unheard", "fate", "unclaimed", "tend", "tired", "beside", "patience", "seat", "sick", "allot",
}

// oldPhrases are turns of phrase that hide who does what. No comment of the code contains one.
var oldPhrases = []string{"by whose end", "hopeless", "wind up", "wound up", "written off", "stirred", "leavers",
	"none of which"}

var word = regexp.MustCompile(`[A-Z]+(?:[^A-Z][^A-Z]*)?|[^A-Z]+`)

// wordsOf splits a name at its capitals: "retryBlockedServices" has three words.
func wordsOf(name string) (words []string) {
	for _, w := range word.FindAllString(name, -1) {
		words = append(words, strings.ToLower(w))
	}
	return words
}

// outdated returns the names and comments of a file that use the old vocabulary.
func (s source) outdated() (complaints []string) {
	complain := func(n ast.Node, what, name string) {
		complaints = append(complaints, fmt.Sprintf("%s:%d: %s %q: docs/glossary.md has the word to use", s.path,
			s.line(n.Pos()), what, name))
	}
	ast.Inspect(s.file, func(n ast.Node) bool {
		var names []*ast.Ident
		switch n := n.(type) {
		case *ast.FuncDecl:
			names = []*ast.Ident{n.Name}
		case *ast.TypeSpec:
			names = []*ast.Ident{n.Name}
		case *ast.ValueSpec:
			names = n.Names
		case *ast.Field:
			names = n.Names
		}
		for _, name := range names {
			if slices.ContainsFunc(wordsOf(name.Name), func(w string) bool { return slices.Contains(oldWords, w) }) {
				complain(name, "the name", name.Name)
			}
		}
		return true
	})
	for _, group := range s.file.Comments {
		text := strings.ReplaceAll(group.Text(), "\n", " ")
		for _, phrase := range oldPhrases {
			if strings.Contains(text, phrase) {
				complain(group, "the phrase", phrase)
			}
		}
	}
	return complaints
}

// Names and comments use the words of docs/glossary.md.
func TestWords(t *testing.T) {
	for _, s := range sources(t) {
		if s.test() || strings.HasPrefix(s.path, "tests/") {
			continue
		}
		for _, c := range s.outdated() {
			t.Error(c)
		}
	}
}

// The check of words finds them.
func TestWordRulesBite(t *testing.T) {
	for name, c := range map[string]struct {
		code string
		want int
	}{
		"Function":     {"func hopefulServices() {}", 1},
		"Type":         {"type census struct{}", 1},
		"Field":        {"type x struct{ toldNames int }", 1},
		"Parameter":    {"func f(roster int) {}", 1},
		"PartOfAWord":  {"func toldest() {}", 0},
		"Phrase":       {"// f is by whose\n// end.\nfunc f() {}", 1},
		"FieldsOfECS":  {"type x struct{ LastStatus int }", 0},
		"OtherPhrases": {"// f uses nothing.\nfunc f() {}", 0},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := parse("shared/x/y.go", []byte("package x\n\n"+c.code+"\n"))
			if err != nil {
				t.Fatal(err)
			}
			if got := s.outdated(); len(got) != c.want {
				t.Errorf("got %q, want %d", got, c.want)
			}
		})
	}
}
