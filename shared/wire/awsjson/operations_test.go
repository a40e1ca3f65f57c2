package awsjson_test

import (
	"reflect"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/google/go-cmp/cmp"

	"berth/shared/wire/awsjson"
)

// The list is written out, because looking up the SDK's methods at run time would keep the linker
// from dropping any.
func TestOperations(t *testing.T) {
	client := reflect.TypeFor[*ecs.Client]()
	var want []string
	for m := range client.Methods() {
		if m.Type.NumIn() == 4 && m.Type.In(2) == inputOf(m) && m.Type.NumOut() == 2 {
			want = append(want, m.Name)
		}
	}
	if len(want) < 80 {
		t.Fatalf("the SDK has %d operations: looked in the wrong place", len(want))
	}
	if diff := cmp.Diff(want, awsjson.OperationNames()); diff != "" {
		t.Error(diff)
	}
}

// inputOf returns the type of the third parameter if it is the method's own input, else nil.
func inputOf(m reflect.Method) reflect.Type {
	in := m.Type.In(2)
	if in.Kind() == reflect.Pointer && in.Elem().Name() == m.Name+"Input" {
		return in
	}
	return nil
}
