package embedded

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"berth/shared/cluster"
	"berth/shared/state"
)

// A copy equals its row and shares nothing with it, whatever fields rows have.
func TestCopiedRowSharesNothing(t *testing.T) {
	for _, prefix := range []string{
		state.PrefixMeta, state.PrefixInstance, state.PrefixService, state.PrefixTask, state.PrefixAlias,
		state.PrefixDefinition, state.PrefixOutbox, state.PrefixRequest, state.PrefixDue, state.PrefixEvent,
		state.PrefixCheckpoint, state.PrefixEntry, state.PrefixBucket,
	} {
		t.Run(strings.TrimSuffix(prefix, "#"), func(t *testing.T) {
			r := state.EmptyRow(prefix)
			fillAll(reflect.ValueOf(r).Elem())
			want, err := state.EncodeRow(r)
			if err != nil {
				t.Fatal(err)
			}
			c := copyStoredRow(r)
			if got, err := state.EncodeRow(c); err != nil || string(got) != string(want) {
				t.Errorf("the copy is %s (%v), want %s", got, err, want)
			}
			if shared := sharedParts(reflect.ValueOf(r), reflect.ValueOf(c), "row"); len(shared) > 0 {
				t.Errorf("the copy shares %v", shared)
			}
		})
	}
}

func TestCopiedRowEqualsTheDecodedOne(t *testing.T) {
	local := time.Now().In(time.FixedZone("", 3600))
	r := copyStoredRow(&cluster.Task{
		TaskSpec:       cluster.TaskSpec{CreatedAt: cluster.At(local), Tags: map[string]string{}},
		TaskAssignment: cluster.TaskAssignment{GPUs: []int{}},
	}).(*cluster.Task)
	if r.CreatedAt.Time() != local.Round(0).UTC() || r.Tags != nil || r.GPUs != nil {
		t.Errorf("copy %+v, want its time in UTC, no monotonic reading, and nil for empty collections", r)
	}
}

// fillAll fills every map, list and pointer, however deep.
func fillAll(v reflect.Value) {
	if v.Type() == reflect.TypeFor[time.Time]() {
		v.Set(reflect.ValueOf(time.Date(2026, 11, 21, 0, 0, 0, 1, time.UTC)))
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			fillAll(v.Field(i))
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fillAll(v.Elem())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		fillAll(v.Index(0))
		fillAll(v.Index(1))
	case reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fillAll(key)
		fillAll(value)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	case reflect.String:
		v.SetString("x")
	default: // numbers share nothing
	}
}

// sharedParts returns the names of the parts that two values of one type share in memory.
func sharedParts(a, b reflect.Value, path string) []string {
	if a.Type() == reflect.TypeFor[time.Time]() {
		return nil
	}
	var out []string
	switch a.Kind() {
	case reflect.Pointer:
		if a.IsNil() || b.IsNil() {
			return nil
		}
		if a.Pointer() == b.Pointer() {
			return []string{path}
		}
		return sharedParts(a.Elem(), b.Elem(), path)
	case reflect.Struct:
		for i := range a.NumField() {
			out = append(out, sharedParts(a.Field(i), b.Field(i), path+"."+a.Type().Field(i).Name)...)
		}
	case reflect.Slice:
		if a.Len() > 0 && a.Pointer() == b.Pointer() {
			return []string{path}
		}
		for i := range min(a.Len(), b.Len()) {
			out = append(out, sharedParts(a.Index(i), b.Index(i), path+"[]")...)
		}
	case reflect.Map:
		if !a.IsNil() && a.Pointer() == b.Pointer() {
			return []string{path}
		}
		for i := a.MapRange(); i.Next(); {
			out = append(out, sharedParts(i.Value(), b.MapIndex(i.Key()), path+"[]")...)
		}
	case reflect.Interface, reflect.Chan, reflect.Func:
		return []string{path + ": no row may have a " + a.Kind().String()}
	default:
	}
	return out
}
