package metrics

import (
	"slices"
	"strings"
	"sync"
	"testing"
)

// fixture is a small module whose figures are known.
var fixture = sync.OnceValues(func() (*Code, error) { return Load("testdata/fixture", func(string) {}) })

func loadFixture(t *testing.T) *Code {
	t.Helper()
	c, err := fixture()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// numbers are the items by name, those that are asked for.
func numbers(items []Item, names ...string) []int {
	var out []int
	for _, name := range names {
		i := slices.IndexFunc(items, func(i Item) bool { return i.Name == name })
		if i < 0 {
			out = append(out, -1)
			continue
		}
		out = append(out, items[i].N)
	}
	return out
}

func TestCountLines(t *testing.T) {
	for name, c := range map[string]struct {
		source         string
		code, comments int
	}{
		"CodeAndComment":   {"package x\n\n// one\n// two\nvar y int // three\n", 2, 2},
		"BlockComment":     {"/* one\n\ntwo */\npackage x\n", 1, 2},
		"CommentAfterCode": {"package x\nvar y = 1 /* one\ntwo */\n", 2, 1},
		"RawString":        {"package x\nvar y = `one\n\n// two`\n", 3, 0},
		"NoNewlineAtEnd":   {"package x\nvar y int", 2, 0},
		"Empty":            {"", 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			if l := CountLines([]byte(c.source)); l.Code != c.code || l.Comments != c.comments {
				t.Errorf("got %d lines of code and %d of comments, want %d and %d", l.Code, l.Comments, c.code, c.comments)
			}
		})
	}
	if l := (Lines{Code: 6, Comments: 2}); l.CommentShare() != 0.25 {
		t.Errorf("2 comments beside 6 lines of code are a share of %v, want 0.25", l.CommentShare())
	}
}

func TestWords(t *testing.T) {
	for name, want := range map[string]string{
		"place": "place", "Place": "Place", "placeTasks": "place Tasks", "ECSTask": "ECS Task", "toECS": "to ECS", "ID": "ID",
		"parseIDs": "parse I Ds", "v2Beta": "v2 Beta", "sha256Sum": "sha256 Sum", "snake_case": "snake case", "aB": "a B",
	} {
		if got := strings.Join(Words(name), " "); got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
}

func TestWidthAndLimits(t *testing.T) {
	f := file{path: "x.go", source: []byte("\t" + strings.Repeat("é", 6) + "()\n// " + strings.Repeat("x", 12) + "\n")}
	if got := wideLines(f, codeLine, 11); len(got) != 1 || got[0].Line != 1 || got[0].N != 12 {
		t.Errorf("got wide lines of code %v, want line 1 with 12 columns", got)
	}
	if got := wideLines(f, codeLine, 12); got != nil {
		t.Errorf("got %v, want no line of more than 12 columns", got)
	}
	if got := wideLines(f, commentLine, 11); len(got) != 1 || got[0].Line != 2 {
		t.Errorf("got wide comments %v, want line 2", got)
	}
	m := measure(2, []Item{{Name: "b", N: 2}, {Name: "c", N: 3}, {Name: "a", N: 4}})
	if m.Max.Name != "a" || len(m.Over) != 2 || m.Over[1].Name != "c" {
		t.Errorf("got %+v, want a as the largest, and a and c over 2", m)
	}
}

func TestSizes(t *testing.T) {
	c := loadFixture(t)
	methods := numbers(c.methods(), "shared/shelf.Shelf", "shared/shelf.Store", "shared/shelf.Reader", "shared/shelf.Book", "cmd/till.memory")
	if want := []int{3, 2, 1, 0, 2}; !slices.Equal(methods, want) {
		t.Errorf("got methods %v, want %v: an interface has those that it embeds, a struct only its own", methods, want)
	}
	structs, contexts := c.fields()
	if got, want := numbers(structs, "shared/shelf.Book", "shared/shelf.Shelf", "cmd/till.memory"), []int{3, 3, 1}; !slices.Equal(got, want) {
		t.Errorf("got fields %v, want %v", got, want)
	}
	unnamed := slices.ContainsFunc(structs, func(i Item) bool { return i.Name == "shared/shelf.Shelf" && i.N == 2 })
	if !unnamed {
		t.Errorf("the struct without a name in Shelf is not among %v", structs)
	}
	if len(contexts) != 1 || contexts[0].Name != "shared/shelf.Shelf.ctx" {
		t.Errorf("got contexts %v, want that of Shelf, and not the parameters", contexts)
	}
	if got := c.promotedTwice(); len(got) != 1 || got[0].Name != "shared/shelf.Book.colour" || got[0].N != 1 {
		t.Errorf("got %v, want colour promoted twice once: b.colour, but not b.Cover.colour", got)
	}
	if got, want := numbers(c.folders(), "shared/shelf", "shared/desk", "cmd/till"), []int{2, 1, 1}; !slices.Equal(got, want) {
		t.Errorf("got files of folders %v, want %v", got, want)
	}
	if got, want := numbers(c.functions(), "shared/shelf.Shelf.Add", "shared/shelf.each", "shared/desk.notMeasured"), []int{9, 1, -1}; !slices.Equal(got, want) {
		t.Errorf("got lines of functions %v, want %v", got, want)
	}
	if got := numbers(fileLengths(c.files, true), "shared/desk/desk_test.go", "shared/desk/desk.go"); !slices.Equal(got, []int{3, -1}) {
		t.Errorf("got lines of test files %v, want 3 of desk_test.go alone", got)
	}
}

func TestNames(t *testing.T) {
	n := loadFixture(t).names()
	// One word: Add each name compare less turn Check note Give unrelated first second Find Put count Recount use.
	// More: describeBook sortAll twoSides oneSide otherSide.
	// Left out: main, init and String.
	if n.Functions != 22 || n.OneWord != 17 || n.LeftOut != 3 {
		t.Errorf("got %d functions, %d of one word, %d left out; want 22, 17 and 3", n.Functions, n.OneWord, n.LeftOut)
	}
	if want := 124.0 / 22; n.Letters != want {
		t.Errorf("got %v letters, want %v", n.Letters, want)
	}
}

func TestArrows(t *testing.T) {
	c := loadFixture(t)
	calls := c.innerCalls()
	if len(calls) != 1 || calls[0].Package != "shared/shelf" {
		t.Fatalf("got %v, want calls between the files of shelf alone", calls)
	}
	// shelf.go uses label.go 4 times: describeBook twice, sortAll, name. Back goes each.
	if got := calls[0]; got.Calls != 5 || got.Up != 1 || len(got.Pairs) != 1 {
		t.Errorf("got %+v, want 5 calls, 1 of them back up, in one pair", got)
	}
	want := Pair{A: "shared/desk", B: "shared/shelf", AtoB: 1, BtoA: 1}
	if got := c.folderPairs(); len(got) != 1 || got[0] != want {
		t.Errorf("got folders that import each other %v, want %v", got, want)
	}
}

func TestTwoWay(t *testing.T) {
	got := twoWay(map[[2]string]int{{"a", "b"}: 9, {"b", "a"}: 1, {"c", "d"}: 2, {"d", "c"}: 2, {"d", "a"}: 4, {"e", "e"}: 1})
	if want := []Pair{{"c", "d", 2, 2}, {"a", "b", 9, 1}}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v: the most on the lesser side first", got, want)
	}
	for path, want := range map[string]string{
		"a/c": "a/b a/c", "a/b/c": "", "a": "", "c": "a c", "a/c/b": "a/b a/c", "a/b/d/e": "",
	} {
		a, b, ok := siblings("a/b", path)
		if got := strings.TrimSpace(a + " " + b); got != want || ok != (want != "") {
			t.Errorf("a/b and %s part at %q, want %q", path, got, want)
		}
	}
}

// Each hop has what is on the way and nothing beside it.
func TestHops(t *testing.T) {
	g := loadFixture(t).graph()
	for name, c := range map[string]struct {
		hop  Hop
		want string
		// lines are all lines of what is read, doc comments included.
		lines int
	}{
		"PortEndsTheWay":        {Hop{"", "shared/desk.Desk.Give", "shared/shelf.Store.Put"}, "Desk.Give Shelf.Add", 21},
		"SinkIsRead":            {Hop{"", "shared/desk.Desk.Give", "shared/shelf.Shelf.Add"}, "Desk.Give Shelf.Add", 21},
		"ThroughAnInterface":    {Hop{"", "shared/desk.Desk.Give", "shared/desk.Desk.note"}, "Desk.Give Desk.note Limit.Check", 15},
		"FieldWritten":          {Hop{"", "shared/desk.Rule.Check", "shared/desk.Desk.given"}, "Desk.note Limit.Check", 4},
		"ThroughAVariable":      {Hop{"", "shared/desk.Desk.Give", "shared/desk.second"}, "Desk.Give second steps", 15},
		"FieldOfALiteral":       {Hop{"", "shared/desk.first", "shared/desk.Desk.given"}, "first", 1},
		"FunctionLiteral":       {Hop{"", "shared/shelf.Shelf.Add", "shared/shelf.compare"}, "Shelf.Add compare sortAll", 12},
		"FunctionPassedOn":      {Hop{"", "shared/shelf.sortAll", "shared/shelf.less"}, "less sortAll", 2},
		"LiteralWithoutKeys":    {Hop{"", "shared/shelf.Shelf.Add", "shared/shelf.order.second"}, "Shelf.Add sortAll", 11},
		"VariablesOfOneCall":    {Hop{"", "shared/shelf.Recount", "shared/shelf.twoSides"}, "Recount left right twoSides", 5},
		"VariableOfItsOwnCall":  {Hop{"", "shared/shelf.twoSides", "shared/shelf.oneSide"}, "lower oneSide twoSides", 3},
		"AddressOfAField":       {Hop{"", "cmd/till.memory.Put", "cmd/till.memory.calls"}, "memory.Put", 5},
		"MethodOfAnotherMethod": {Hop{"", "shared/shelf.Shelf.String", "shared/shelf.Shelf.name"}, "Shelf.String Shelf.name", 2},
	} {
		t.Run(name, func(t *testing.T) {
			w, err := g.way([]Hop{c.hop})
			if err != nil {
				t.Fatal(err)
			}
			var names []string
			for _, i := range w.Read {
				names = append(names, i.Name[strings.Index(i.Name, ".")+1:])
			}
			slices.Sort(names)
			if got := strings.Join(names, " "); got != c.want || w.Lines != c.lines || w.Declarations != len(names) {
				t.Errorf("got %s with %d lines in %d declarations, want %s with %d lines", got, w.Lines, w.Declarations, c.want, c.lines)
			}
		})
	}
}

// What is on several hops counts once.
func TestWayCountsOnce(t *testing.T) {
	g := loadFixture(t).graph()
	w, err := g.way([]Hop{
		{"a", "shared/desk.Desk.Give", "shared/shelf.Shelf.Add"}, {"b", "shared/shelf.Shelf.Add", "shared/shelf.Store.Put"},
	})
	if err != nil {
		t.Fatal(err)
	}
	if w.Declarations != 2 || w.Files != 2 || w.Lines != 21 || w.Hops[0].Declarations != 2 || w.Hops[1].Declarations != 1 {
		t.Errorf("got %+v, want 2 declarations with 21 lines in 2 files", w)
	}
}

// A hop whose names are wrong fails, and says which.
func TestWayFailsLoudly(t *testing.T) {
	g := loadFixture(t).graph()
	for name, c := range map[string]struct {
		hop  Hop
		want string
	}{
		"NoEntry":   {Hop{"a", "shared/desk.Desk.Add", "shared/desk.Desk.note"}, `hop "a": there is no shared/desk.Desk.Add`},
		"SaysWhere": {Hop{"a", "shared/desk.Desk.Add", "shared/desk.Desk.note"}, "(called the same: shared/shelf.Shelf.Add)"},
		"SaysField": {Hop{"a", "shared/desk.Desk.Give", "shared/shelf.Desk.given"}, "(called the same: shared/desk.Desk.given, shared/shelf/plank.Desk.given)"},
		"SaysPort":  {Hop{"a", "shared/desk.Desk.Give", "shared/desk.Store.Find"}, "(called the same: shared/shelf.Reader.Find, shared/shelf.Store.Find, cmd/till.memory.Find)"},
		"NoSink":    {Hop{"a", "shared/desk.Desk.Give", "shared/desk.Desk.x"}, "there is no shared/desk.Desk.x"},
		"NoPackage": {Hop{"a", "shared/table.Desk.Give", "shared/desk.Desk.note"}, "there is no shared/table.Desk.Give"},
		"NoWay":     {Hop{"a", "shared/desk.Desk.note", "shared/desk.Desk.Give"}, "shared/desk.Desk.note does not lead to shared/desk.Desk.Give"},
		"Adapter":   {Hop{"a", "shared/shelf.Shelf.Add", "shared/shelf.Recount"}, "shared/shelf.Shelf.Add does not lead to shared/shelf.Recount"},
		"Field":     {Hop{"a", "shared/desk.Desk.given", "shared/desk.Desk.Give"}, "shared/desk.Desk.given is not a function"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := g.way([]Hop{c.hop}); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got error %v, want %q", err, c.want)
			}
		})
	}
}

// The figures and their text have what was measured, also where the way could not be.
func TestMeasure(t *testing.T) {
	c := loadFixture(t)
	f, err := c.Measure([]Hop{{"gone", "shared/desk.Gone", "shared/desk.Desk.note"}})
	if err == nil || f == nil || f.Way != nil {
		t.Fatalf("got way %v and error %v, want all figures but the way", f.Way, err)
	}
	if f, err = c.Measure([]Hop{{"give", "shared/desk.Desk.Give", "shared/shelf.Store.Put"}}); err != nil {
		t.Fatal(err)
	}
	if len(f.Areas) != 2 || f.Areas[0].Code+f.Areas[1].Code != f.Total.Code || f.Total.Files != 5 {
		t.Errorf("got areas %v of %v, want cmd and shared with all of 5 files", f.Areas, f.Total)
	}
	var text strings.Builder
	if err := f.WriteText(&text, []Row{{Name: "event's way: lines", Value: 2361}}); err != nil {
		t.Fatal(err)
	}
	plain := strings.Join(strings.Fields(text.String()), " ")
	for _, want := range []string{"event's way: lines 2361 21 900", "give 2 21 2 shared/desk.Desk.Give", "shared/shelf 5 1 1"} {
		if !strings.Contains(plain, want) {
			t.Errorf("%q is missing in\n%s", want, &text)
		}
	}
}

func TestLoadFails(t *testing.T) {
	if _, err := Load(t.TempDir(), func(string) {}); err == nil || !strings.Contains(err.Error(), "no Go files in shared, cmd, functions") {
		t.Errorf("got error %v of an empty folder", err)
	}
}
