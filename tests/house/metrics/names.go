package metrics

import (
	"go/ast"
	"go/types"
	"slices"
	"strings"
	"unicode"
)

// Names says how the functions and methods are named. Each declaration counts once, exported or not; what an interface
// asks for does not, only what implements it.
type Names struct {
	Functions int     `json:"functions"`
	OneWord   int     `json:"oneWord"`
	Letters   float64 `json:"meanLetters"`
	// LeftOut are main, init and the methods that an interface of the standard library names.
	LeftOut int `json:"leftOut"`
	// ByPackage has the same for each folder.
	ByPackage []PackageNames `json:"byPackage"`
}

// PackageNames are the names of one folder.
type PackageNames struct {
	Name      string  `json:"name"`
	Functions int     `json:"functions"`
	OneWord   int     `json:"oneWord"`
	Letters   float64 `json:"meanLetters"`
}

// OneWordShare is the part of the names that is a single word.
func (n Names) OneWordShare() float64 { return share(n.OneWord, n.Functions) }

// standardMethods are names whose author is an interface of the standard library, by signature.
var standardMethods = map[string][]string{
	"String": {"func() string"}, "GoString": {"func() string"}, "Error": {"func() string"},
	"Unwrap": {"func() error", "func() []error"}, "Is": {"func(error) bool"}, "As": {"func(any) bool"},
	"Len": {"func() int"}, "Less": {"func(int, int) bool"}, "Swap": {"func(int, int)"}, "Push": {"func(any)"}, "Pop": {"func() any"},
	"Read": {"func([]byte) (int, error)"}, "Write": {"func([]byte) (int, error)"}, "Close": {"func() error"},
	"ServeHTTP":   {"func(http.ResponseWriter, *http.Request)"},
	"RoundTrip":   {"func(*http.Request) (*http.Response, error)"},
	"Header":      {"func() http.Header"},
	"WriteHeader": {"func(int)"},
	"MarshalJSON": {"func() ([]byte, error)"}, "UnmarshalJSON": {"func([]byte) error"},
	"MarshalText": {"func() ([]byte, error)"}, "UnmarshalText": {"func([]byte) error"},
	"Format": {"func(fmt.State, rune)"}, "LogValue": {"func() slog.Value"},
}

// namedByOthers reports whether a function's name is not its author's choice.
func namedByOthers(d *ast.FuncDecl) bool {
	if d.Recv == nil {
		return d.Name.Name == "main" || d.Name.Name == "init"
	}
	return slices.Contains(standardMethods[d.Name.Name], signature(d.Type))
}

// signature is a function type without the names of its parameters.
func signature(t *ast.FuncType) string {
	list := func(l *ast.FieldList) []string {
		var out []string
		if l == nil {
			return nil
		}
		for _, f := range l.List {
			for range max(1, len(f.Names)) {
				out = append(out, types.ExprString(f.Type))
			}
		}
		return out
	}
	s := "func(" + strings.Join(list(t.Params), ", ") + ")"
	switch results := list(t.Results); len(results) {
	case 0:
		return s
	case 1:
		return s + " " + results[0]
	default:
		return s + " (" + strings.Join(results, ", ") + ")"
	}
}

// Words splits a name in camel case. Letters in a row that are all upper case are one word, except for the last when a
// lower case letter follows: ECSTask is ECS and Task. Digits belong to the word before them.
func Words(name string) []string {
	var out []string
	for part := range strings.SplitSeq(name, "_") {
		runes := []rune(part)
		start := 0
		for i := 1; i < len(runes); i++ {
			begins := unicode.IsUpper(runes[i]) && !unicode.IsUpper(runes[i-1])
			ends := unicode.IsUpper(runes[i]) && i+1 < len(runes) && unicode.IsLower(runes[i+1])
			if begins || ends {
				out = append(out, string(runes[start:i]))
				start = i
			}
		}
		if start < len(runes) {
			out = append(out, string(runes[start:]))
		}
	}
	return out
}

func (c *Code) names() Names {
	var all Names
	letters := 0
	by := map[string]*PackageNames{}
	for _, f := range c.measured() {
		for _, d := range functionsOf(f) {
			if namedByOthers(d) {
				all.LeftOut++
				continue
			}
			p := by[f.folder()]
			if p == nil {
				p = &PackageNames{Name: f.folder()}
				by[f.folder()] = p
			}
			n := len([]rune(d.Name.Name))
			all.Functions, p.Functions = all.Functions+1, p.Functions+1
			letters, p.Letters = letters+n, p.Letters+float64(n)
			if len(Words(d.Name.Name)) == 1 {
				all.OneWord, p.OneWord = all.OneWord+1, p.OneWord+1
			}
		}
	}
	all.Letters = float64(letters) / float64(max(1, all.Functions))
	for _, p := range by {
		p.Letters /= float64(p.Functions)
		all.ByPackage = append(all.ByPackage, *p)
	}
	slices.SortFunc(all.ByPackage, func(a, b PackageNames) int { return strings.Compare(a.Name, b.Name) })
	return all
}
