package house

import (
	"fmt"
	"go/ast"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

var (
	codeSpan    = regexp.MustCompile("`[^`]+`")
	packagePath = regexp.MustCompile(`^(shared|functions|cmd|tests)(/[a-z0-9-]+)+$`)
	testPath    = regexp.MustCompile(`^(Test|Fuzz|Benchmark)[A-Z]\w*(/\S+)?$`)
	rowName     = regexp.MustCompile(`\b[SPCN][1-9][0-9]?\b`)
	rowStart    = regexp.MustCompile(`(?m)^\| ([SPCN][1-9][0-9]?) \|`)
	settingRow  = regexp.MustCompile("(?m)^\\| `([A-Z][A-Za-z]+)` \\| ([^|]*\\S) \\|")
)

// namedTest is a test that a document names, in the package that it named last before it.
type namedTest struct{ pkg, name string }

// namedTests are the tests that a document names. A package counts up to the end of its paragraph or row.
func namedTests(text string) []namedTest {
	var out []namedTest
	pkg := ""
	for line := range strings.SplitSeq(text, "\n") {
		if line == "" || strings.HasPrefix(line, "|") {
			pkg = "" // a fallback to the page's last one would hide mistakes
		}
		for _, span := range codeSpan.FindAllString(line, -1) {
			switch span = strings.Trim(span, "`"); {
			case packagePath.MatchString(span):
				pkg = span
			case testPath.MatchString(span):
				out = append(out, namedTest{pkg, span})
			}
		}
	}
	return out
}

// testNames are what a package's tests can be called by: its test functions, and the texts that may name subtests.
type testNames struct{ functions, texts map[string]bool }

func namesIn(files []source) map[string]testNames {
	out := map[string]testNames{}
	for _, s := range files {
		if !s.test() {
			continue
		}
		dir := path.Dir(s.path)
		if out[dir].functions == nil {
			out[dir] = testNames{map[string]bool{}, map[string]bool{}}
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				if n.Recv == nil {
					out[dir].functions[n.Name.Name] = true
				}
			case *ast.BasicLit:
				if text, err := strconv.Unquote(n.Value); err == nil && n.Kind == token.STRING {
					out[dir].texts[text] = true
				}
			}
			return true
		})
	}
	return out
}

// missing says what of the test's name is not to be found; empty if all of it is.
func (n namedTest) missing(all map[string]testNames) string {
	if n.pkg == "" {
		return fmt.Sprintf("%s: no package is named before it", n.name)
	}
	function, rest, nested := strings.Cut(n.name, "/")
	if !all[n.pkg].functions[function] {
		return fmt.Sprintf("%s has no %s", n.pkg, function)
	}
	for part := range strings.SplitSeq(rest, "/") {
		if nested && !all[n.pkg].texts[part] {
			return fmt.Sprintf("%s has no %s: nothing in its tests is called %s", n.pkg, n.name, part)
		}
	}
	return ""
}

func read(t *testing.T, name string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(name)))
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// Every test that a document names is there.
func TestDocumentedTests(t *testing.T) {
	all := namesIn(sources(t))
	count := map[string]int{}
	for _, page := range markdownFiles(t) {
		for _, n := range namedTests(read(t, page)) {
			count[page]++
			if what := n.missing(all); what != "" {
				t.Errorf("%s: %s", page, what)
			}
		}
	}
	if count["docs/behaviour.md"] < 20 {
		t.Errorf("only %d tests were found in docs/behaviour.md", count["docs/behaviour.md"])
	}
}

// Every rule that the code names is in docs/behaviour.md, once, and every rule there says how far it is.
func TestDocumentedRules(t *testing.T) {
	page := read(t, "docs/behaviour.md")
	rows := map[string]bool{}
	for _, m := range rowStart.FindAllStringSubmatch(page, -1) {
		if rows[m[1]] {
			t.Errorf("docs/behaviour.md has %s twice", m[1])
		}
		rows[m[1]] = true
	}
	for line := range strings.SplitSeq(page, "\n") {
		if m := rowStart.FindStringSubmatch(line); m != nil && !strings.HasPrefix(shownBy(line), "not yet") && len(namedTests(line)) == 0 {
			t.Errorf("docs/behaviour.md: %s names no test and is not said to be missing", m[1])
		}
	}
	for _, s := range sources(t) {
		for _, group := range s.file.Comments {
			for _, name := range rowName.FindAllString(group.Text(), -1) {
				if !rows[name] {
					t.Errorf("%s:%d: docs/behaviour.md has no %s", s.path, s.line(group.Pos()), name)
				}
			}
		}
	}
}

// shownBy is a row's last cell.
func shownBy(row string) string {
	cells := strings.Split(strings.TrimSuffix(row, " |"), " | ")
	return cells[len(cells)-1]
}

// The settings in docs/settings.md are the template's parameters, with their defaults.
func TestDocumentedSettings(t *testing.T) {
	var template struct {
		Parameters map[string]struct {
			Default string `yaml:"Default"`
		} `yaml:"Parameters"`
	}
	if err := yaml.Unmarshal([]byte(read(t, "template.yaml")), &template); err != nil {
		t.Fatal(err)
	}
	documented := map[string]string{}
	for _, m := range settingRow.FindAllStringSubmatch(read(t, "docs/settings.md"), -1) {
		documented[m[1]] = strings.Trim(m[2], "–")
	}
	for name, p := range template.Parameters {
		if got, ok := documented[name]; !ok || got != p.Default {
			t.Errorf("docs/settings.md says that %s is %q (there: %t), the template has %q", name, got, ok, p.Default)
		}
		delete(documented, name)
	}
	for name := range documented {
		t.Errorf("docs/settings.md has a setting %s, template.yaml has none", name)
	}
}

// The check of names finds names that are wrong.
func TestDocumentRulesBite(t *testing.T) {
	s, err := parse("shared/service/replica_test.go", []byte("package x\nfunc TestReplica(t *T) { t.Run(\"Stays\", nil) }\nfunc (x) TestMethod() {}\n"))
	if err != nil {
		t.Fatal(err)
	}
	all := namesIn([]source{s})
	for name, c := range map[string]struct{ text, want string }{
		"Right":          {"| S1 | `shared/service` `TestReplica`, `TestReplica/Stays` |", ""},
		"OtherFunction":  {"`shared/service` `TestDaemon`", "shared/service has no TestDaemon"},
		"OtherSubtest":   {"`shared/service` `TestReplica/Goes`", "shared/service has no TestReplica/Goes: nothing in its tests is called Goes"},
		"OtherPackage":   {"`shared/placement` `TestReplica`", "shared/placement has no TestReplica"},
		"NoTestFunction": {"`shared/service` `TestMethod`", "shared/service has no TestMethod"},
		"NoPackage":      {"| `shared/service` |\n| `TestReplica` |", "TestReplica: no package is named before it"},
	} {
		t.Run(name, func(t *testing.T) {
			var found []string
			for _, n := range namedTests(c.text) {
				if what := n.missing(all); what != "" {
					found = append(found, what)
				}
			}
			if got := slices.Compact(found); strings.Join(got, "\n") != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}
