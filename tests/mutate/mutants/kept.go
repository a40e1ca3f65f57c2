package mutants

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
)

// A Kept change is one that no test can notice, because the program does the same with it, or that
// none should notice, with the reason. It is found by its function and text.
type Kept struct {
	Package  string `json:"package"`
	Function string `json:"function"`
	Before   string `json:"before"`
	After    string `json:"after,omitempty"`
	Nth      int    `json:"nth,omitempty"` // 1 if absent
	Reason   string `json:"reason"`
}

// ReadKept reads the list of kept changes. A file that does not exist has none.
func ReadKept(name string) ([]Kept, error) {
	content, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var list []Kept
	in := json.NewDecoder(bytes.NewReader(content))
	in.DisallowUnknownFields()
	if err := in.Decode(&list); err != nil {
		return nil, fmt.Errorf("reading %s: %w", name, err)
	}
	known := map[Kept]bool{}
	for n := range list {
		k := &list[n]
		k.Nth = max(k.Nth, 1)
		if strings.TrimSpace(k.Reason) == "" {
			return nil, fmt.Errorf("reading %s: %s has no reason", name, k)
		}
		if known[k.identity()] {
			return nil, fmt.Errorf("reading %s: %s is there twice", name, k)
		}
		known[k.identity()] = true
	}
	return list, nil
}

func (k Kept) identity() Kept {
	k.Reason = ""
	return k
}

// String names the change as [Mutant.String] does.
func (k *Kept) String() string {
	return (&Mutant{Package: k.Package, Function: k.Function, Before: k.Before, After: k.After, Nth: k.Nth}).String()
}

// identity is what a change has in the list of kept ones.
func (m *Mutant) identity() Kept {
	return Kept{Package: m.Package, Function: m.Function, Before: m.Before, After: m.After, Nth: m.Nth}
}

// Explain gives the changes that survived their reasons. It returns the entries of the tree that
// are wrong: those whose change is not possible any more, and those with which a test failed. One
// that only took too long may be slow on this machine.
func Explain(t *Tree, list []Kept, results []*Result) (vanished, noticed []Kept) {
	possible, folders := map[Kept]bool{}, map[string]bool{}
	for _, m := range t.Mutants {
		possible[m.identity()] = true
		folders[m.Package] = true
	}
	byIdentity := map[Kept]*Result{}
	for _, r := range results {
		byIdentity[r.identity()] = r
	}
	for _, k := range list {
		r := byIdentity[k.identity()]
		switch {
		case folders[k.Package] && !possible[k.identity()]:
			vanished = append(vanished, k)
		case r != nil && r.Outcome == Noticed:
			noticed = append(noticed, k)
		case r != nil && !r.IsNoticed():
			r.Reason = k.Reason
		}
	}
	return vanished, noticed
}
