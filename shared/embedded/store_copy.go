package embedded

import (
	"maps"
	"reflect"
	"sync"
	"time"

	"berth/shared/state"
)

// copyStoredRow returns a row that shares nothing with r and is as it would come back from its
// JSON: times in UTC, empty maps and lists nil. Encoding and decoding the row would do the same,
// but every read makes a copy.
func copyStoredRow(r state.Row) state.Row {
	from := reflect.ValueOf(r).Elem()
	to := reflect.New(from.Type())
	to.Elem().Set(from)
	if detach := detacherOf(from.Type()); detach != nil {
		detach(to.Elem())
	}
	return to.Interface().(state.Row)
}

// detacher replaces in an addressable value what it shares with the value that it was copied from:
// pointers, slices and maps. One is built per type and then reused.
type detacher func(v reflect.Value)

var detachers sync.Map // reflect.Type to detacher

// detacherOf builds a type's detacher once. Two goroutines may do so at the same time, with the
// same result.
func detacherOf(t reflect.Type) detacher {
	if d, ok := detachers.Load(t); ok {
		return d.(detacher)
	}
	d := newDetacher(t)
	detachers.Store(t, d)
	return d
}

// newDetacher returns nil for a type whose copies share nothing. Times and string maps, the most
// frequent, go without reflection.
func newDetacher(t reflect.Type) detacher {
	switch {
	case t == reflect.TypeFor[time.Time]():
		return func(v reflect.Value) {
			at := v.Addr().Interface().(*time.Time)
			*at = at.UTC()
		}
	case t == reflect.TypeFor[map[string]string]():
		return func(v reflect.Value) {
			m := v.Addr().Interface().(*map[string]string)
			if *m = maps.Clone(*m); len(*m) == 0 {
				*m = nil
			}
		}
	}
	switch t.Kind() {
	case reflect.Struct:
		return structDetacher(t)
	case reflect.Pointer:
		return pointerDetacher(t)
	case reflect.Slice:
		return sliceDetacher(t)
	case reflect.Map:
		return mapDetacher(t)
	}
	return nil
}

// structDetacher leaves out fields that share nothing, and unexported ones, which rows do not have.
func structDetacher(t reflect.Type) detacher {
	type part struct {
		field  int
		detach detacher
	}
	var parts []part
	for i := range t.NumField() {
		if d := newDetacher(t.Field(i).Type); d != nil && t.Field(i).IsExported() {
			parts = append(parts, part{i, d})
		}
	}
	if parts == nil {
		return nil
	}
	return func(v reflect.Value) {
		for _, p := range parts {
			p.detach(v.Field(p.field))
		}
	}
}

// pointerDetacher copies what a pointer points to.
func pointerDetacher(t reflect.Type) detacher {
	detach := newDetacher(t.Elem())
	return func(v reflect.Value) {
		if v.IsNil() {
			return
		}
		to := reflect.New(t.Elem())
		to.Elem().Set(v.Elem())
		if detach != nil {
			detach(to.Elem())
		}
		v.Set(to)
	}
}

// sliceDetacher copies a slice, and makes an empty one nil.
func sliceDetacher(t reflect.Type) detacher {
	detach := newDetacher(t.Elem())
	return func(v reflect.Value) {
		n := v.Len()
		if n == 0 {
			v.SetZero()
			return
		}
		to := reflect.MakeSlice(t, n, n)
		reflect.Copy(to, v)
		if detach != nil {
			for i := range n {
				detach(to.Index(i))
			}
		}
		v.Set(to)
	}
}

// mapDetacher copies a map, and makes an empty one nil. Values in a map cannot be changed in place,
// hence the temporary one.
func mapDetacher(t reflect.Type) detacher {
	detach := newDetacher(t.Elem())
	return func(v reflect.Value) {
		if v.Len() == 0 {
			v.SetZero()
			return
		}
		to := reflect.MakeMapWithSize(t, v.Len())
		for i := v.MapRange(); i.Next(); {
			e := reflect.New(t.Elem()).Elem()
			e.Set(i.Value())
			if detach != nil {
				detach(e)
			}
			to.SetMapIndex(i.Key(), e)
		}
		v.Set(to)
	}
}
