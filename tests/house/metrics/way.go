package metrics

import (
	"cmp"
	"errors"
	"fmt"
	"go/types"
	"slices"
	"strings"
)

// Hop is one leg of the way of an event: from where it comes in to where it goes out again.
//
// Both are named as FOLDER.Name, FOLDER.Type.Method or FOLDER.Type.Field, such as
// "shared/handler.Placement.Records". Entry is a function or method. Sink is a function or method, a method of an
// interface (reached where it is called), or a field of a struct (reached where it is written).
type Hop struct {
	Name  string `json:"name"`
	Entry string `json:"entry"`
	Sink  string `json:"sink"`
}

// HopLength is how much is on one hop: the declarations that can be reached from the entry and from which the sink can be
// reached, both included. Their lines count doc comments.
type HopLength struct {
	Hop
	Declarations int `json:"declarations"`
	Lines        int `json:"lines"`
	Files        int `json:"files"`
}

// Way is how much one has to read to follow an event over all its hops. What is on several hops counts once.
type Way struct {
	Declarations int         `json:"declarations"`
	Lines        int         `json:"lines"`
	Files        int         `json:"files"`
	Hops         []HopLength `json:"hops"`
	// Read are the declarations, in order of file and line; N is their lines.
	Read []Item `json:"read"`
}

// way measures the hops. A name that does not exist, or a sink that its entry does not reach, is an error, and so are all
// others like it at once: the way is then not measured at all.
func (g *graph) way(hops []Hop) (*Way, error) {
	w := &Way{}
	all := map[types.Object]bool{}
	var failed []error
	for _, h := range hops {
		on, err := g.hop(h)
		if err != nil {
			failed = append(failed, fmt.Errorf("hop %q: %w", h.Name, err))
			continue
		}
		l := HopLength{Hop: h}
		l.Declarations, l.Lines, l.Files = g.count(on)
		w.Hops = append(w.Hops, l)
		for o := range on {
			all[o] = true
		}
	}
	if len(failed) > 0 {
		return nil, errors.Join(failed...)
	}
	w.Declarations, w.Lines, w.Files = g.count(all)
	for o := range all {
		if d, ok := g.declared[o]; ok {
			w.Read = append(w.Read, Item{Name: d.name, File: d.file, Line: d.line, N: d.lines})
		}
	}
	slices.SortFunc(w.Read, func(a, b Item) int {
		return cmp.Or(strings.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), strings.Compare(a.Name, b.Name))
	})
	return w, nil
}

func (g *graph) count(nodes map[types.Object]bool) (declarations, lines, files int) {
	in := map[string]bool{}
	for o := range nodes {
		if d, ok := g.declared[o]; ok {
			declarations++
			lines += d.lines
			in[d.file] = true
		}
	}
	return declarations, lines, len(in)
}

// hop is what lies on a way from entry to sink. It leads only through packages that the entry's package imports: a
// reader who comes to a port's method stops there and does not go on into the adapters. Nor does it lead beyond the sink.
func (g *graph) hop(h Hop) (map[types.Object]bool, error) {
	entry, err := g.find(h.Entry)
	_, isFunction := entry.(*types.Func)
	if err == nil && !isFunction {
		err = fmt.Errorf("%s is not a function", h.Entry)
	}
	sink, err2 := g.find(h.Sink)
	if err := errors.Join(err, err2); err != nil {
		return nil, err
	}
	within := g.imports[entry.Pkg().Path()]
	callers := map[types.Object][]types.Object{}
	reached := map[types.Object]bool{entry: true}
	for queue := []types.Object{entry}; len(queue) > 0; queue = queue[1:] {
		if queue[0] == sink {
			continue
		}
		for _, to := range g.edges[queue[0]] {
			if to.Pkg() == nil || !within[to.Pkg().Path()] {
				continue
			}
			callers[to] = append(callers[to], queue[0])
			if !reached[to] {
				reached[to] = true
				queue = append(queue, to)
			}
		}
	}
	if !reached[sink] {
		return nil, fmt.Errorf("%s does not lead to %s", h.Entry, h.Sink)
	}
	on := map[types.Object]bool{sink: true}
	for queue := []types.Object{sink}; len(queue) > 0; queue = queue[1:] {
		for _, from := range callers[queue[0]] {
			if !on[from] {
				on[from] = true
				queue = append(queue, from)
			}
		}
	}
	return on, nil
}

// find looks up a function, method or field by its qualified name.
func (g *graph) find(name string) (types.Object, error) {
	slash := strings.LastIndex(name, "/")
	folder, rest, _ := strings.Cut(name[slash+1:], ".")
	path := g.code.module + "/" + name[:slash+1] + folder
	first, second, _ := strings.Cut(rest, ".")
	for _, p := range g.code.packages {
		if p.PkgPath != path {
			continue
		}
		o := p.Types.Scope().Lookup(first)
		if o != nil && second != "" {
			o, _, _ = types.LookupFieldOrMethod(types.NewPointer(o.Type()), true, p.Types, second)
			if t := p.Types.Scope().Lookup(first); o == nil && types.IsInterface(t.Type()) {
				o, _, _ = types.LookupFieldOrMethod(t.Type(), true, p.Types, second)
			}
		}
		switch o := o.(type) {
		case *types.Func:
			return o.Origin(), nil
		case *types.Var:
			return o.Origin(), nil
		}
	}
	return nil, fmt.Errorf("there is no %s; if it moved or was renamed, change the hop that names it%s", name, g.suggest(name))
}

// suggest lists what has the same last name: functions, methods, methods of interfaces and fields, those in the same
// area first.
func (g *graph) suggest(name string) string {
	last := name[strings.LastIndex(name, ".")+1:]
	var same []string
	for o, d := range g.declared {
		if o.Name() == last {
			same = append(same, d.name)
		}
	}
	for _, p := range g.code.packages {
		for _, in := range p.Types.Scope().Names() {
			if t, ok := p.Types.Scope().Lookup(in).(*types.TypeName); ok && hasMember(t.Type(), last) {
				same = append(same, g.code.local(p.PkgPath)+"."+in+"."+last)
			}
		}
	}
	area, _, _ := strings.Cut(name, "/")
	far := map[bool]int{false: 1}
	slices.SortFunc(same, func(a, b string) int {
		return cmp.Or(far[strings.HasPrefix(a, area+"/")]-far[strings.HasPrefix(b, area+"/")], strings.Compare(a, b))
	})
	if len(same) == 0 {
		return ""
	}
	return " (called the same: " + strings.Join(same[:min(len(same), 8)], ", ") + ")"
}

// hasMember reports whether an interface has a method, or a struct a field of its own, of the name.
func hasMember(t types.Type, name string) bool {
	switch t := t.Underlying().(type) {
	case *types.Interface:
		for m := range t.Methods() {
			if m.Name() == name {
				return true
			}
		}
	case *types.Struct:
		for f := range t.Fields() {
			if f.Name() == name {
				return true
			}
		}
	}
	return false
}
