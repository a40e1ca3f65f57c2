package protocol_test

import (
	"errors"
	"net/url"
	"testing"

	"github.com/google/go-cmp/cmp"

	"berth/shared/cluster"
	"berth/shared/sim/protocol"
)

// readForm decodes a form as an operation would.
func readForm[I any](t *testing.T, form string) (in I, err error) {
	t.Helper()
	values, err := url.ParseQuery(form)
	if err != nil {
		t.Fatal(err)
	}
	tree, err := protocol.TreeFromForm(values)
	if err == nil {
		err = protocol.DecodeTree(tree, &in)
	}
	return in, err
}

func TestFormListsAreInOrderOfTheirNumbers(t *testing.T) {
	type input struct{ Ids []string }
	for _, c := range []struct {
		name, form string
		want       []string
	}{
		{"Member", "Ids.member.1=a&Ids.member.2=b", []string{"a", "b"}},
		{"Flat", "Ids.1=a&Ids.2=b", []string{"a", "b"}},
		{"NotByText", "Ids.10=b&Ids.9=a", []string{"a", "b"}},
		{"WithGaps", "Ids.1=a&Ids.3=b&Ids.7=c", []string{"a", "b", "c"}},
		{"WithGapsInMember", "Ids.member.2=a&Ids.member.4=b", []string{"a", "b"}},
		{"FromZero", "Ids.0=a&Ids.1=b", []string{"a", "b"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			in, err := readForm[input](t, c.form)
			if diff := cmp.Diff(c.want, in.Ids); err != nil || diff != "" {
				t.Errorf("%s: %v (-want +got):\n%s", c.form, err, diff)
			}
		})
	}
}

func TestFormStructuresKeepNumbersAmongOtherNames(t *testing.T) {
	in, err := readForm[struct{ Data protocol.Tree }](t, "Data.1=a&Data.Name=b&Data.member.1=c")
	want := protocol.Tree{"1": "a", "Name": "b", "member": []any{"c"}}
	if diff := cmp.Diff(want, in.Data); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

func TestFormRefusesWhatIsMalformed(t *testing.T) {
	type input struct {
		Port    int
		On      bool
		Targets []struct {
			Id   string
			Port int
		}
	}
	for _, c := range []struct {
		name, form string
		want       cluster.Code
	}{
		{"ValueAndStructure", "A=x&A.B=y", "MalformedInput"},
		{"ValueAndList", "A=x&A.member.1=y", "MalformedInput"},
		{"EmptyName", "A.=x", "MalformedInput"},
		{"NoNumber", "Port=http", "ValidationError"},
		{"NoNumberInAList", "Targets.member.1.Id=i-1&Targets.member.1.Port=http", "ValidationError"},
		{"NoWholeNumber", "Port=80.5", "ValidationError"},
		{"NoTruthValue", "On=perhaps", "ValidationError"},
	} {
		t.Run(c.name, func(t *testing.T) {
			in, err := readForm[input](t, c.form)
			var e *cluster.Error
			if !errors.As(err, &e) || e.Code != c.want {
				t.Errorf("%s gives %+v, %v; want %s", c.form, in, err, c.want)
			}
		})
	}
}
