package account

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/aws/smithy-go"

	"berth/cmd/berth/doctor"
)

var calls = regexp.MustCompile(`r\.(?:callForm|callJSON|getPath)\(ctx, (\w+),\s+"(\w+)"`)

// Actions are exactly those that the calls of this package need, and that the help lists.
func TestActionsAreThoseOfTheCalls(t *testing.T) {
	prefixes := map[string]string{"cloudFormation": "cloudformation", "autoScaling": "autoscaling",
		"dynamoDB":   "dynamodb",
		"cloudWatch": "cloudwatch", "serviceQuotas": "servicequotas"}
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	var made []string
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range calls.FindAllStringSubmatch(string(text), -1) {
			service := m[1]
			if prefixes[service] != "" {
				service = prefixes[service]
			}
			made = append(made, service+":"+m[2])
		}
	}
	slices.Sort(made)
	if made = slices.Compact(made); !slices.Equal(made, Actions) {
		t.Errorf("the calls need\n%q, want\n%q", made, Actions)
	}
	for _, file := range []string{"../../help/doctor.txt", "../../../../docs/doctor.md"} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, action := range Actions {
			if !strings.Contains(string(text), action) {
				t.Errorf("%s does not list %s", file, action)
			}
		}
	}
	for _, action := range Actions {
		_, operation, _ := strings.Cut(action, ":")
		if !strings.HasPrefix(operation, "Describe") && !strings.HasPrefix(operation, "List") &&
			!strings.HasPrefix(operation, "Get") {
			t.Errorf("%s may change something", action)
		}
	}
}

func TestErrorsOfCalls(t *testing.T) {
	refusal := func(code string) error { return &smithy.GenericAPIError{Code: code, Message: "m"} }
	for _, c := range []struct {
		err  error
		want string
	}{
		{refusal("AccessDenied"), "needs a:B"}, {refusal("UnauthorizedOperation"), "needs a:B"},
		{refusal("NoSuchEntity"), doctor.ErrMissing.Error()},
		{refusal("ResourceNotFoundException"), doctor.ErrMissing.Error()},
		{refusal("AWS.SimpleQueueService.NonExistentQueue"), doctor.ErrMissing.Error()},
		{refusal("InternalFailure"), "a:B: InternalFailure: m"}, {errors.New("no route"), "a:B: no route"},
	} {
		if got := explain("a:B", c.err); got == nil || got.Error() != c.want {
			t.Errorf("%v: %v, want %s", c.err, got, c.want)
		}
	}
	if explain("a:B", nil) != nil {
		t.Error("no error is one")
	}
}
