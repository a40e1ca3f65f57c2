package dynamo_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"berth/shared/cluster"
	"berth/shared/dynamo"
	"berth/shared/state"
)

// network answers DynamoDB's calls by a script, one step a call. Calls after the script's end reach
// the real server.
type network struct {
	behind dynamodb.HTTPClient
	script []func(*http.Request) (*http.Response, error)
	calls  int
	tokens []string
}

func (n *network) Do(r *http.Request) (*http.Response, error) {
	n.calls++
	body, _ := io.ReadAll(r.Body)
	r.Body = io.NopCloser(strings.NewReader(string(body)))
	if _, rest, ok := strings.Cut(string(body), `"ClientRequestToken":"`); ok {
		n.tokens = append(n.tokens, rest[:strings.IndexByte(rest, '"')])
	}
	if len(n.script) > 0 {
		step := n.script[0]
		n.script = n.script[1:]
		return step(r)
	}
	return n.behind.Do(r)
}

// lost carries out the request and loses the answer.
func (n *network) lost(r *http.Request) (*http.Response, error) {
	resp, err := n.behind.Do(r)
	if err != nil {
		return nil, err
	}
	resp.Body.Close()
	return nil, errors.New("connection reset by peer")
}

func hangs(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, r.Context().Err()
}

func refusesConnections(*http.Request) (*http.Response, error) {
	return nil, &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("connection refused")}
}

func answers(status int, code, more string) func(*http.Request) (*http.Response, error) {
	return func(*http.Request) (*http.Response, error) {
		body := fmt.Sprintf(`{"__type":"com.amazonaws.dynamodb.v20120810#%s","message":"m"%s}`, code, more)
		return &http.Response{
			StatusCode: status, Header: http.Header{"Content-Type": {"application/x-amz-json-1.0"}},
			Body: io.NopCloser(strings.NewReader(body)), ContentLength: int64(len(body)),
		}, nil
	}
}

func canceled(codes ...string) func(*http.Request) (*http.Response, error) {
	var reasons []string
	for _, c := range codes {
		reasons = append(reasons, fmt.Sprintf(`{"Code":%q}`, c))
	}
	return answers(400, "TransactionCanceledException", `,"CancellationReasons":[`+strings.Join(reasons, ",")+`]`)
}

func repeat(n int, step func(*http.Request) (*http.Response, error)) []func(*http.Request) (*http.Response, error) {
	var steps []func(*http.Request) (*http.Response, error)
	for range n {
		steps = append(steps, step)
	}
	return steps
}

// faulty returns a state with a meta row, which is reached through a network that the test scripts.
// It never waits in real time.
func faulty(t *testing.T) (*dynamo.State, *network) {
	t.Helper()
	good := open(t)
	_, err := good.Write(context.Background(), state.Write{Put: &state.Meta{Head: cluster.Head{Cluster: "c", Rev: 1}}})
	if err != nil {
		t.Fatal(err)
	}
	options := good.Client.(*dynamodb.Client).Options()
	n := &network{behind: http.DefaultClient}
	options.HTTPClient = n
	noWait := func(ctx context.Context, _ time.Duration) error { return ctx.Err() }
	return &dynamo.State{Client: dynamodb.New(options), Table: good.Table, Pause: noWait}, n
}

func instanceWrite(id string) state.Write {
	return state.Write{Put: &cluster.Instance{Head: cluster.Head{Cluster: "c", Rev: 1}, ID: id}}
}

var commitOne = state.Commit{Cluster: "c", Version: 0, Writes: []state.Write{instanceWrite("i")}}

func version(t *testing.T, s *dynamo.State) int64 {
	t.Helper()
	row, err := s.Get(context.Background(), state.KeyOf((&state.Meta{Head: cluster.Head{Cluster: "c"}})))
	if err != nil {
		t.Fatal(err)
	}
	return row.(*state.Meta).Version
}

func TestCommitWithLostAnswerIsRepeatedUnderItsToken(t *testing.T) {
	ctx := context.Background()
	t.Run("IsResolvedByItsToken", func(t *testing.T) {
		s, n := faulty(t)
		n.script = append(n.script, n.lost)
		if err := s.Commit(ctx, commitOne); err != nil {
			t.Fatalf("Commit = %v, want success: the first attempt took effect", err)
		}
		if v := version(t, s); v != 1 {
			t.Errorf("version = %d, want 1", v)
		}
		if len(n.tokens) != 2 || n.tokens[0] != n.tokens[1] {
			t.Errorf("tokens = %v, want the same twice", n.tokens)
		}
	})
	t.Run("KeepsItsTokenThroughThrottling", func(t *testing.T) {
		s, n := faulty(t)
		n.script = append(n.script, n.lost, answers(400, "ThrottlingException", ""),
			canceled("TransactionConflict", "None"))
		if err := s.Commit(ctx, commitOne); err != nil {
			t.Fatalf("Commit = %v", err)
		}
		for _, token := range n.tokens {
			if token != n.tokens[0] {
				t.Fatalf("tokens = %v, want one", n.tokens)
			}
		}
	})
	t.Run("IsAmbiguousIfNoAnswerComes", func(t *testing.T) {
		s, n := faulty(t)
		n.script = repeat(20, n.lost)
		if err := s.Commit(ctx, commitOne); !errors.Is(err, cluster.ErrAmbiguous) {
			t.Fatalf("Commit = %v, want ErrAmbiguous", err)
		}
		if n.calls != 8 {
			t.Errorf("%d attempts, want 8", n.calls)
		}
	})
	t.Run("IsAmbiguousIfTheCallerGivesUp", func(t *testing.T) {
		s, n := faulty(t)
		ctx, cancel := context.WithCancel(ctx)
		n.script = append(n.script, func(r *http.Request) (*http.Response, error) {
			cancel()
			return n.lost(r)
		})
		if err := s.Commit(ctx, commitOne); !errors.Is(err, cluster.ErrAmbiguous) {
			t.Fatalf("Commit = %v, want ErrAmbiguous", err)
		}
	})
	t.Run("IsAConflictIfAnotherWriterWasFirst", func(t *testing.T) {
		s, n := faulty(t)
		n.script = append(n.script, func(*http.Request) (*http.Response, error) {
			if _, err := s.Write(ctx, instanceWrite("i")); err != nil { // by another process, in the meantime
				t.Error(err)
			}
			return nil, errors.New("connection reset by peer")
		})
		var conflict *state.Conflict
		if err := s.Commit(ctx, commitOne); !errors.As(err, &conflict) || conflict.Version || conflict.Row == nil {
			t.Fatalf("Commit = %v, want the conflict on the instance's row", err)
		}
	})
}

func TestCommitReportsConflictsOverTheVersion(t *testing.T) {
	s := open(t)
	ctx := context.Background()
	if _, err := s.Write(ctx, state.Write{Put: &state.Meta{Head: cluster.Head{Cluster: "c", Rev: 1},
		Version: 5}}); err != nil {
		t.Fatal(err)
	}
	var conflict *state.Conflict
	c := state.Commit{Cluster: "c", Version: 4, Writes: []state.Write{instanceWrite("a"), instanceWrite("b")}}
	err := s.Commit(ctx, c)
	if !errors.As(err, &conflict) || !conflict.Version || conflict.Row.(*state.Meta).Version != 5 {
		t.Fatalf("Commit on an old version = %v, want a conflict with the meta row", err)
	}
	c.Version = 5
	if err := s.Commit(ctx, c); err != nil {
		t.Fatal(err)
	}
	if v := version(t, s); v != 6 {
		t.Errorf("version = %d, want 6", v)
	}
	c.Writes = append(c.Writes, c.Writes[0])
	if err := s.Commit(ctx, c); err == nil || errors.As(err, &conflict) && conflict.Version {
		t.Errorf("Commit of a row named twice = %v, want an error of its own", err)
	}
}

func TestWriteWithLostAnswerIsAmbiguous(t *testing.T) {
	ctx := context.Background()
	for name, fault := range map[string]func(*network) func(*http.Request) (*http.Response, error){
		"Reset": func(n *network) func(*http.Request) (*http.Response, error) { return n.lost },
		"InternalError": func(*network) func(*http.Request) (*http.Response, error) {
			return answers(500, "InternalServerError", "")
		},
		"Hangs": func(*network) func(*http.Request) (*http.Response, error) { return hangs },
	} {
		t.Run(name, func(t *testing.T) {
			s, n := faulty(t)
			s.Timeout = 50 * time.Millisecond
			n.script = append(n.script, fault(n))
			if _, err := s.Write(ctx, instanceWrite("i")); !errors.Is(err, cluster.ErrAmbiguous) {
				t.Fatalf("Write = %v, want ErrAmbiguous", err)
			}
			if n.calls != 1 {
				t.Errorf("%d attempts, want 1: a repetition would find its own row and call it a conflict", n.calls)
			}
		})
	}
}

func TestPassingRefusalsAreRetried(t *testing.T) {
	ctx := context.Background()
	t.Run("Throttling", func(t *testing.T) {
		s, n := faulty(t)
		n.script = repeat(3, answers(400, "ProvisionedThroughputExceededException", ""))
		if _, err := s.Write(ctx, instanceWrite("i")); err != nil {
			t.Fatalf("Write = %v", err)
		}
		if u := s.Usage(); u.Retries != 3 {
			t.Errorf("%d retries, want 3", u.Retries)
		}
	})
	t.Run("EndlessThrottling", func(t *testing.T) {
		s, n := faulty(t)
		n.script = repeat(20, answers(400, "ThrottlingException", ""))
		_, err := s.Write(ctx, instanceWrite("i"))
		if err == nil || errors.Is(err, cluster.ErrAmbiguous) || n.calls != 8 {
			t.Fatalf("Write = %v after %d attempts, want an unambiguous error after 8", err, n.calls)
		}
	})
	t.Run("NoConnection", func(t *testing.T) {
		s, n := faulty(t)
		n.script = repeat(20, refusesConnections)
		_, err := s.Write(ctx, instanceWrite("i"))
		if err == nil || errors.Is(err, cluster.ErrAmbiguous) || n.calls != 8 {
			t.Fatalf("Write = %v after %d attempts, want an unambiguous error after 8", err, n.calls)
		}
	})
	t.Run("TransactionConflictOfOneRow", func(t *testing.T) {
		s, n := faulty(t)
		n.script = repeat(1, answers(400, "TransactionConflictException", ""))
		if _, err := s.Write(ctx, instanceWrite("i")); err != nil {
			t.Fatalf("Write = %v", err)
		}
	})
	t.Run("TransactionConflictUnderANewToken", func(t *testing.T) {
		s, n := faulty(t)
		n.script = append(n.script, canceled("None", "TransactionConflict"), canceled("ThrottlingError", "None"))
		if err := s.Commit(ctx, commitOne); err != nil {
			t.Fatalf("Commit = %v", err)
		}
		if len(n.tokens) != 3 || n.tokens[0] == n.tokens[1] || n.tokens[1] == n.tokens[2] {
			t.Errorf("tokens = %v, want three", n.tokens)
		}
	})
	t.Run("ReadsAfterAnyFailure", func(t *testing.T) {
		s, n := faulty(t)
		n.script = append(n.script, n.lost, answers(500, "InternalServerError", ""))
		if v := version(t, s); v != 0 || n.calls != 3 {
			t.Errorf("version %d after %d calls, want 0 after 3", v, n.calls)
		}
	})
}

func TestLastingRefusalsAreNotRetried(t *testing.T) {
	ctx := context.Background()
	for _, code := range []string{"ValidationError", "ItemCollectionSizeLimitExceeded"} {
		t.Run(code, func(t *testing.T) {
			s, n := faulty(t)
			n.script = repeat(20, canceled("TransactionConflict", code))
			err := s.Commit(ctx, commitOne)
			var conflict *state.Conflict
			if err == nil || errors.As(err, &conflict) || errors.Is(err, cluster.ErrAmbiguous) || n.calls != 1 {
				t.Fatalf("Commit = %v after %d attempts, want a plain error after 1", err, n.calls)
			}
		})
	}
	t.Run("RowTooLarge", func(t *testing.T) {
		s, n := faulty(t)
		w := state.Write{Put: &cluster.ServiceEvent{Head: cluster.Head{Cluster: "c", Rev: 1},
			Message: strings.Repeat("x", 500_000)}}
		if _, err := s.Write(ctx, w); err == nil || n.calls != 1 {
			t.Fatalf("Write = %v after %d attempts, want an error after 1", err, n.calls)
		}
	})
	t.Run("NothingIsSentAfterTheDeadline", func(t *testing.T) {
		s, n := faulty(t)
		ctx, cancel := context.WithCancel(ctx)
		cancel()
		if _, err := s.Write(ctx, instanceWrite("i")); !errors.Is(err, context.Canceled) ||
			errors.Is(err, cluster.ErrAmbiguous) || n.calls != 0 {
			t.Fatalf("Write = %v after %d calls, want context.Canceled after none", err, n.calls)
		}
	})
	t.Run("NoCredentials", func(t *testing.T) {
		s, n := faulty(t)
		options := s.Client.(*dynamodb.Client).Options()
		options.Credentials = credentials.StaticCredentialsProvider{Value: aws.Credentials{}}
		s.Client = dynamodb.New(options)
		if _, err := s.Write(ctx, instanceWrite("i")); err == nil || errors.Is(err, cluster.ErrAmbiguous) ||
			n.calls != 0 {
			t.Fatalf("Write = %v after %d calls, want a plain error after none", err, n.calls)
		}
	})
}
