package house

import (
	"fmt"
	"go/ast"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// maxTour is how many lines of code the tour may send its reader through: the declarations that it links to, each once and
// with its comment.
const maxTour = 600

// A tour links to a declaration by its name and its file, and may show parts of it in the code block that follows:
//
//	[`Handler.HandleRecords`](../shared/handler/placement/placement.go)
//
//	```go
//	for _, r := range records {
//	...
//	```
//
// A line of dots leaves lines out. Links to other files work the same way; their name is not checked.
var (
	codeLink = regexp.MustCompile("\\[`([^`]+)`\\]\\(([^)#]+)\\)")
	elision  = regexp.MustCompile(`^(//|#)? ?\.\.\.$`)
)

// tour is what a document tells its readers to read.
type tour struct {
	page  string
	read  func(file string) (string, error)
	sites map[string]int // lines by declaration
}

// check returns what is wrong with the document.
func (t *tour) check(text string) (complaints []string) {
	var name, file string
	lines := strings.Split(text, "\n")
	for i := 0; i < len(lines); i++ {
		for _, m := range codeLink.FindAllStringSubmatch(lines[i], -1) {
			name, file = m[1], path.Join(path.Dir(t.page), m[2])
			if _, err := t.declaration(name, file); err != nil {
				complaints = append(complaints, err.Error())
			}
		}
		if !strings.HasPrefix(lines[i], "```") {
			continue
		}
		begin := i + 1
		for i++; i < len(lines) && !strings.HasPrefix(lines[i], "```"); i++ {
		}
		if strings.HasPrefix(lines[begin-1], "```mermaid") {
			continue
		}
		source, err := t.declaration(name, file)
		if err != nil {
			continue // said above
		}
		if missing := notShown(lines[begin:i], strings.Split(source, "\n")); missing != "" {
			complaints = append(complaints, fmt.Sprintf("%s:%d: %s in %s does not have %q there", t.page, begin, name, file, missing))
		}
	}
	return complaints
}

// declaration returns the source of a declaration, with its comment, or the whole of a file that is not Go.
func (t *tour) declaration(name, file string) (string, error) {
	content, err := t.read(file)
	if err != nil {
		return "", fmt.Errorf("%s links to %s: %w", t.page, file, err)
	}
	if !strings.HasSuffix(file, ".go") {
		return content, nil
	}
	s, err := parse(file, []byte(content))
	if err != nil {
		return "", err
	}
	node, doc := find(s.file, name)
	if node == nil {
		return "", fmt.Errorf("%s: %s declares no %s", t.page, file, name)
	}
	from := node.Pos()
	if doc != nil {
		from = doc.Pos()
	}
	t.sites[file+" "+name] = s.line(node.End()) - s.line(from) + 1
	return content[s.set.Position(from).Offset:s.set.Position(node.End()).Offset], nil
}

// find returns the declaration of a name, or of a method as Type.Method, and its comment.
func find(file *ast.File, name string) (ast.Node, *ast.CommentGroup) {
	for _, d := range file.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if name == methodName(d) {
				return d, d.Doc
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				if declares(spec, name) {
					if d.Lparen == token.NoPos {
						return d, d.Doc
					}
					return spec, nil
				}
			}
		}
	}
	return nil, nil
}

// methodNames returns the file's methods, each as Type.Method.
func methodNames(file *ast.File) (names []string) {
	for _, d := range file.Decls {
		if f, ok := d.(*ast.FuncDecl); ok && f.Recv != nil {
			names = append(names, methodName(f))
		}
	}
	return names
}

func methodName(d *ast.FuncDecl) string {
	if d.Recv == nil {
		return d.Name.Name
	}
	of := d.Recv.List[0].Type
	if star, ok := of.(*ast.StarExpr); ok {
		of = star.X
	}
	if generic, ok := of.(*ast.IndexExpr); ok {
		of = generic.X
	}
	if of, ok := of.(*ast.Ident); ok {
		return of.Name + "." + d.Name.Name
	}
	return ""
}

func declares(spec ast.Spec, name string) bool {
	switch spec := spec.(type) {
	case *ast.TypeSpec:
		return spec.Name.Name == name
	case *ast.ValueSpec:
		for _, n := range spec.Names {
			if n.Name == name {
				return true
			}
		}
	}
	return false
}

// notShown returns the first line of an excerpt that the source does not have where it should be; empty if it has all.
// Indentation and blank lines do not count.
func notShown(excerpt, source []string) string {
	source = withoutBlanks(source)
	var part []string
	for _, line := range append(withoutBlanks(excerpt), "...") {
		if !elision.MatchString(line) {
			part = append(part, line)
			continue
		}
		at, missing := locate(part, source)
		if missing != "" {
			return missing
		}
		source, part = source[at+len(part):], nil
	}
	return ""
}

// locate returns where the source has the lines one after the other, or the line up to which it comes closest.
func locate(lines, source []string) (at int, missing string) {
	most := -1
	for at := range source {
		n := 0
		for n < len(lines) && at+n < len(source) && source[at+n] == lines[n] {
			n++
		}
		if n == len(lines) {
			return at, ""
		}
		if n > most {
			most, missing = n, lines[n]
		}
	}
	if len(lines) > 0 && most < 0 {
		missing = lines[0]
	}
	return 0, missing
}

func withoutBlanks(lines []string) (out []string) {
	for _, line := range lines {
		if line = strings.TrimSpace(line); line != "" {
			out = append(out, line)
		}
	}
	return out
}

// The tour's links and excerpts are true, and it does not send anyone through more code than it promises.
func TestTour(t *testing.T) {
	tour := &tour{page: "docs/tour.md", sites: map[string]int{}, read: func(file string) (string, error) {
		content, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(file)))
		return string(content), err
	}}
	text := read(t, tour.page)
	for _, c := range tour.check(text) {
		t.Error(c)
	}
	sum := 0
	for _, lines := range tour.sites {
		sum += lines
	}
	t.Logf("the tour links to %d declarations of %d lines", len(tour.sites), sum)
	if sum > maxTour {
		t.Errorf("the tour sends one through %d lines of code, at most %d", sum, maxTour)
	}
	if len(tour.sites) < 15 {
		t.Errorf("the tour links to %d declarations only", len(tour.sites))
	}
}

// The check of the tour finds what is wrong.
func TestTourRulesBite(t *testing.T) {
	files := map[string]string{
		"a/b.go": "package a\n\n// F does.\nfunc F() {\n\tone()\n\ttwo()\n\n\tthree()\n}\n\nfunc (x *T) M() {\n\tother()\n}\n\nvar (\n\tv = 1\n\tw = 2\n)\n",
		"c.yaml": "one: 1\ntwo: 2\n",
	}
	for name, c := range map[string]struct{ text, want string }{
		"Right":       {"[`F`](../a/b.go)\n```go\none()\n...\nthree()\n```\n[`T.M`](../a/b.go), [`w`](../a/b.go)\n```go\nw = 2\n```", ""},
		"OtherFile":   {"[`c.yaml`](../c.yaml)\n```yaml\ntwo: 2\n```", ""},
		"NoSuchName":  {"[`G`](../a/b.go)", "docs/tour.md: a/b.go declares no G"},
		"NoSuchFile":  {"[`F`](../b.go)", "docs/tour.md links to b.go: not found"},
		"OtherLine":   {"[`F`](../a/b.go)\n```go\nfour()\n```", `docs/tour.md:2: F in a/b.go does not have "four()" there`},
		"OtherOrder":  {"[`F`](../a/b.go)\n```go\ntwo()\n...\none()\n```", `docs/tour.md:2: F in a/b.go does not have "one()" there`},
		"Gap":         {"[`F`](../a/b.go)\n```go\none()\nthree()\n```", `docs/tour.md:2: F in a/b.go does not have "three()" there`},
		"Picture":     {"```mermaid\na --> b\n```\n[`G`](../a/b.go)", "docs/tour.md: a/b.go declares no G"},
		"OtherMethod": {"[`T.M`](../a/b.go)\n```go\none()\n```", `docs/tour.md:2: T.M in a/b.go does not have "one()" there`},
	} {
		t.Run(name, func(t *testing.T) {
			tour := &tour{page: "docs/tour.md", sites: map[string]int{}, read: func(file string) (string, error) {
				if content, ok := files[file]; ok {
					return content, nil
				}
				return "", fmt.Errorf("not found")
			}}
			if got := strings.Join(tour.check(c.text), "\n"); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
	tour := &tour{page: "docs/tour.md", sites: map[string]int{}, read: func(file string) (string, error) { return files[file], nil }}
	if tour.check("[`F`](../a/b.go) [`F`](../a/b.go)"); tour.sites["a/b.go F"] != 7 {
		t.Errorf("F with its comment has 7 lines, got %v", tour.sites)
	}
}
