package transport

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
)

// A fault is an error in the log, unless it is that the client did not wait for the answer.
func TestFaultsAreLogged(t *testing.T) {
	left, leave := context.WithCancel(context.Background())
	leave()
	for _, c := range []struct {
		name string
		ctx  context.Context
		want string
	}{
		{"AFault", context.Background(), "level=ERROR msg=\"operation failed\" operation=ListTasks"},
		{"AClientThatHasLeft", left, "level=INFO msg=\"the client has left\" operation=ListTasks"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var out bytes.Buffer
			g := Guard{Log: slog.New(slog.NewTextHandler(&out, nil))}
			if err := g.Run(c.ctx, "ListTasks", func() error { return errors.New("reading rows") }); err == nil {
				t.Error("no error")
			}
			if !strings.Contains(out.String(), c.want) {
				t.Errorf("the log is %q, want %s", out.String(), c.want)
			}
		})
	}
}
