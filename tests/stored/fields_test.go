package stored

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"berth/shared/cluster"
	"berth/shared/state"
)

// rowPrefixes are the sort-key prefixes of all kinds of rows.
var rowPrefixes = []string{
	state.PrefixMeta, state.PrefixInstance, state.PrefixService, state.PrefixTask, state.PrefixAlias,
	state.PrefixDefinition, state.PrefixOutbox, state.PrefixInbox, state.PrefixRequest, state.PrefixDue, state.PrefixEvent,
	state.PrefixCheckpoint, state.PrefixEntry, state.PrefixBucket, state.PrefixLoad, state.PrefixLoadTimes,
	state.PrefixDeployment,
	state.PrefixRevision, state.PrefixTarget, state.PrefixProtection, state.PrefixThrottle, state.PrefixAlarms,
	state.PrefixNodeGroup, state.PrefixUpdate, state.PrefixProvider, state.PrefixScaling, state.PrefixGroupUse,
	state.PrefixProviders, state.PrefixConfiguration, state.PrefixSettings,
	state.PrefixDeregistration, state.PrefixChangeSet,
}

// kindOf returns the prefix of the kind that a sort key belongs to, and "" for a kind that is not
// in the list.
func kindOf(sort string) string {
	longest := ""
	for _, p := range rowPrefixes {
		if strings.HasPrefix(sort, p) && len(p) > len(longest) {
			longest = p
		}
	}
	return longest
}

// setFields records the path of every field of v that has a value. A path consists of Go names:
// "Older[].TaskDefinition".
func setFields(v reflect.Value, path string, set map[string]bool) {
	if v.IsZero() {
		return
	}
	set[path] = true
	if isLeaf(v.Type()) {
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		setFields(v.Elem(), path, set)
	case reflect.Struct:
		for i := range v.NumField() {
			setFields(v.Field(i), path+"."+v.Type().Field(i).Name, set)
		}
	case reflect.Slice:
		for i := range v.Len() {
			setFields(v.Index(i), path+"[]", set)
		}
	case reflect.Map:
		for _, key := range v.MapKeys() {
			setFields(v.MapIndex(key), path+"{}", set)
		}
	}
}

// allFields returns the path of every field of a row of type t, as setFields writes it.
func allFields(t reflect.Type, path string) []string {
	out := []string{path}
	if isLeaf(t) {
		return out
	}
	switch t.Kind() {
	case reflect.Pointer:
		return allFields(t.Elem(), path)
	case reflect.Struct:
		for f := range t.Fields() {
			out = append(out, allFields(f.Type, path+"."+f.Name)...)
		}
	case reflect.Slice:
		out = append(out, allFields(t.Elem(), path+"[]")...)
	case reflect.Map:
		out = append(out, allFields(t.Elem(), path+"{}")...)
	}
	return out
}

// isLeaf reports whether a value of type t is one value in the stored row.
func isLeaf(t reflect.Type) bool { return t == reflect.TypeFor[time.Time]() }

// unsetFields returns, per kind of row, the fields that have a value in none of the rows.
func unsetFields(rows []state.Row) (out []string) {
	set := map[string]map[string]bool{}
	for _, r := range rows {
		kind := kindOf(state.KeyOf(r).Sort)
		if set[kind] == nil {
			set[kind] = map[string]bool{}
		}
		setFields(reflect.ValueOf(r).Elem(), "", set[kind])
	}
	for _, kind := range rowPrefixes {
		row := state.EmptyRow(kind)
		for _, path := range allFields(reflect.TypeOf(row).Elem(), "") {
			if !set[kind][path] {
				out = append(out, fmt.Sprintf("%s %T%s", kind, row, path))
			}
		}
	}
	return out
}

// A filler gives every field of a row its own value.
type filler struct {
	constants map[string][]string // the values of typed string constants, by type
	count     int                 // of the values given so far
	round     int                 // of the rows of one kind: each takes the next constant of each type
	rounds    int                 // how many rows it takes to use every constant
}

// everyField returns rows of all kinds in which every field has a value: as many rows of a kind as
// it takes to use every constant of the fields' types.
func everyField(name string) ([]state.Row, error) {
	f := &filler{constants: map[string][]string{}}
	var rows []state.Row
	for _, prefix := range rowPrefixes {
		f.rounds = 1
		for f.round = 0; f.round < f.rounds; f.round++ {
			row := state.EmptyRow(prefix)
			if err := f.fillValue(reflect.ValueOf(row).Elem()); err != nil {
				return nil, err
			}
			h := row.Header()
			h.Cluster, h.Rev, h.Expires = name, 1, time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC).Unix()
			switch {
			case state.KeyOf(row).Cluster == state.Directory:
				h.Cluster = state.Directory
			case f.round > 0:
				h.Cluster += "-" + strconv.Itoa(f.round) // some kinds have one row per cluster
			}
			rows = append(rows, row)
		}
	}
	return rows, nil
}

func (f *filler) fillValue(v reflect.Value) error {
	f.count++
	switch x := v.Addr().Interface().(type) {
	case *time.Time:
		*x = time.Date(2026, 11, 1, 0, 0, f.count, 0, time.UTC)
		return nil
	case *cluster.Instant:
		*x = cluster.At(time.Date(2026, 11, 1, 0, 0, f.count, 0, time.UTC))
		return nil
	case *time.Duration:
		*x = time.Duration(f.count) * time.Second
		return nil
	case *cluster.Health:
		*x = []cluster.Health{cluster.Healthy, cluster.Unhealthy}[f.count%2]
		return nil
	}
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(true)
	case reflect.String:
		return f.fillText(v)
	case reflect.Int, reflect.Int32, reflect.Int64:
		v.SetInt(int64(f.count))
	case reflect.Uint64:
		v.SetUint(1<<63 + uint64(f.count)) // more than a float or an int64 can hold
	case reflect.Float64:
		v.SetFloat(float64(f.count) + 0.25)
	default:
		return f.fillParts(v)
	}
	return nil
}

// fillParts fills values that consist of several values.
func (f *filler) fillParts(v reflect.Value) error {
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		return f.fillValue(v.Elem())
	case reflect.Struct:
		for i := range v.NumField() {
			if err := f.fillValue(v.Field(i)); err != nil {
				return err
			}
		}
		return nil
	case reflect.Slice:
		n := 1
		if f.round == 0 {
			n = 2
		}
		v.Set(reflect.MakeSlice(v.Type(), n, n))
		for i := range n {
			if err := f.fillValue(v.Index(i)); err != nil {
				return err
			}
		}
		return nil
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		e := reflect.New(v.Type().Elem()).Elem()
		if err := f.fillValue(e); err != nil {
			return err
		}
		v.SetMapIndex(reflect.ValueOf("key "+strconv.Itoa(f.count)).Convert(v.Type().Key()), e)
		return nil
	}
	return fmt.Errorf("no value is known for the type %s", v.Type())
}

// fillText sets a string to a constant of its type, or else to a text with all characters that need
// quoting.
func (f *filler) fillText(v reflect.Value) error {
	if v.Type().PkgPath() == "" {
		v.SetString(fmt.Sprintf(`text "%d" <é>`, f.count))
		return nil
	}
	values, err := f.valuesOf(v.Type())
	if err != nil {
		return err
	}
	f.rounds = max(f.rounds, len(values))
	v.SetString(values[f.round%len(values)])
	return nil
}

// valuesOf reads the constants of a type from the source of its package.
func (f *filler) valuesOf(t reflect.Type) ([]string, error) {
	if values, ok := f.constants[t.String()]; ok {
		return values, nil
	}
	dir := root + strings.TrimPrefix(t.PkgPath(), "berth")
	files, err := filepath.Glob(dir + "/*.go")
	if err != nil {
		return nil, err
	}
	found := map[string]bool{}
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			return nil, err
		}
		addConstants(file, t.Name(), found)
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("%s has no constant of the type %s", dir, t)
	}
	f.constants[t.String()] = slices.Sorted(maps.Keys(found))
	return f.constants[t.String()], nil
}

// addConstants adds the string constants of a type that a file declares.
func addConstants(file *ast.File, typeName string, found map[string]bool) {
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		if name, ok := spec.Type.(*ast.Ident); !ok || name.Name != typeName {
			return true
		}
		for _, value := range spec.Values {
			if literal, ok := value.(*ast.BasicLit); ok {
				if text, err := strconv.Unquote(literal.Value); err == nil {
					found[text] = true
				}
			}
		}
		return true
	})
}
