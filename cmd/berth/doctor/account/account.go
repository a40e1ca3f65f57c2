package account

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/aws/smithy-go"

	"berth"
	"berth/cmd/berth/client"
	"berth/cmd/berth/doctor"
)

// Options say what to read.
type Options struct {
	Stack string
	AWS   *client.AWS
	// Flags end the commands of remedies, JoinWithin is how long a machine may take to register.
	Flags      string
	JoinWithin time.Duration
	// CallTimeout bounds each call.
	CallTimeout time.Duration
	// Progress is called as parts are done, from several goroutines but one at a time.
	Progress func(done, all int)
}

// services call the services of the account.
type services struct{ options Options }

// reader reads one account.
type reader struct {
	services
	api client.Call // where Berth's API is

	mu sync.Mutex // of done
	// done and all count the parts.
	done, all int
}

// Read reads an installation. The error says that there is no such stack, or that it cannot be read
// at all. What is not read before the context's deadline is unknown.
func Read(ctx context.Context, o Options) (*doctor.Facts, error) {
	r := &reader{services: services{o}}
	stack, err := r.readStack(ctx)
	if err != nil {
		return nil, err
	}
	f := &doctor.Facts{Stack: *stack, Flags: o.Flags, JoinWithin: o.JoinWithin}
	if f.Plan, err = doctor.NewPlan(berth.Template, *stack); err != nil {
		return nil, err
	}
	f.ClockOffset, _ = o.AWS.Offset()
	r.findAPI(f)
	parts := []func(context.Context, *doctor.Facts){
		r.readFunctions, r.readRoles, r.readTable, r.readMappings, r.readRules, r.readSchedules, r.readQueues,
		r.readLambdaLimits, r.readScalingLimits, r.readClusters,
	}
	r.all = len(parts)
	var wait sync.WaitGroup
	for _, read := range parts {
		wait.Go(func() {
			read(ctx, f)
			r.reportPart()
		})
	}
	wait.Wait()
	f.Now = o.AWS.Now()
	if errors.Is(ctx.Err(), context.Canceled) {
		return nil, ctx.Err()
	}
	return f, nil
}

// reportPart reports that one more part is done.
func (r *reader) reportPart() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.done++
	if r.options.Progress != nil {
		r.options.Progress(r.done, r.all)
	}
}

// readEach reads something of each resource of the plan that the stack has, all at once.
func readEach[P, T any](f *doctor.Facts, planned map[string]P, read func(id, physical string) (T, error),
) map[string]doctor.Read[T] {
	out := map[string]doctor.Read[T]{}
	var mu sync.Mutex
	var wait sync.WaitGroup
	for id := range planned {
		physical := f.Stack.Resources[id].ID
		if physical == "" {
			continue
		}
		wait.Go(func() {
			got, err := read(id, physical)
			mu.Lock()
			defer mu.Unlock()
			out[id] = doctor.Read[T]{Got: got, Err: err}
		})
	}
	wait.Wait()
	return out
}

// resultOf returns what a call gave as a read.
func resultOf[T any](got T, err error) doctor.Read[T] { return doctor.Read[T]{Got: got, Err: err} }

// deniedCodes are the codes by which services refuse a caller without the permission.
var deniedCodes = []string{"AccessDenied", "AccessDeniedException", "UnauthorizedOperation", "AuthorizationError",
	"AccessDeniedException.Forbidden"}

// missingCodes are parts of the codes by which services say that a thing does not exist.
var missingCodes = []string{"NotFound", "NoSuchEntity", "NonExistent", "QueueDoesNotExist", "ResourceNotFoundException",
	"NoSuchResource"}

// explain turns the error of a call into one of package doctor, with the permission that it needs.
func explain(action string, err error) error {
	var refusal smithy.APIError
	switch {
	case err == nil:
		return nil
	case !errors.As(err, &refusal):
		return fmt.Errorf("%s: %w", action, err)
	case slices.Contains(deniedCodes, refusal.ErrorCode()):
		return &doctor.Denied{Action: action}
	case slices.ContainsFunc(missingCodes, func(part string) bool {
		return strings.Contains(refusal.ErrorCode(),
			part)
	}):
		return doctor.ErrMissing
	}
	return fmt.Errorf("%s: %s: %s", action, refusal.ErrorCode(), refusal.ErrorMessage())
}
