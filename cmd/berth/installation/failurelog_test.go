package installation_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"berth/cmd/berth/installation"
	"berth/shared/cluster"
)

// Without --verbose `berth up` says what its functions could not do, and nothing else. That a file
// cannot be written is said elsewhere, once. That something else was cut off hides no failure.
func TestFailureLog(t *testing.T) {
	var out bytes.Buffer
	log := installation.NewFailureLog(&out).With("function", "dispatch")
	log.Info("setting the desired capacity")
	log.Warn("dropped event")
	log.Error("invocation failed", "error", fmt.Errorf("writing: %w", &cluster.UnwritableError{Path: "state.db"}))
	if out.Len() > 0 {
		t.Errorf("got %s", &out)
	}
	log.Error("invocation failed", "error", errors.Join(context.Canceled, errors.New("the row is damaged")))
	for _, want := range []string{"function=dispatch", "invocation failed", "the row is damaged"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is missing in %s", want, &out)
		}
	}
}
