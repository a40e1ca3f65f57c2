package e2e

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/smithy-go"

	"berth/tests/cloud"
)

// TestCallers calls the API through the function URL of the local cloud tier as IAM users with
// different rights: the emulator checks signatures and policies, and names the caller.
func TestCallers(t *testing.T) {
	l := newLocal(t, nil)
	clients := map[cloud.Caller]*ecs.Client{}
	for _, u := range []cloud.Caller{cloud.Reader, cloud.Writer, cloud.Manager, cloud.Operator, cloud.Stranger} {
		as, err := l.CreateCaller(t.Context(), u)
		if err != nil {
			t.Fatal(err)
		}
		clients[u] = l.ClientAs(as)
	}
	for u, want := range map[cloud.Caller]string{cloud.Reader: "AccessDeniedException", cloud.Writer: "",
		cloud.Manager: "AccessDeniedException", cloud.Operator: "", cloud.Stranger: "AccessDeniedException"} {
		name := "of-" + string(u)
		_, err := clients[u].CreateCluster(t.Context(), &ecs.CreateClusterInput{ClusterName: &name})
		if code := codeOf(err); code != want {
			t.Errorf("CreateCluster as %s: %v, want %q", u, err, want)
		}
		log, err := l.FunctionLog(t.Context(), "api")
		if err != nil {
			t.Fatal(err)
		}
		logged := strings.Contains(log,
			`"operation":"CreateCluster","principal":"`+u.ARN()+`","subject":"`+name+`"`)
		if logged != (want == "") {
			t.Errorf("the log names %s and its change: %v\n%s", u, logged, log)
		}
		out, err := clients[u].ListClusters(t.Context(), &ecs.ListClustersInput{})
		if mayRead := u != cloud.Stranger; (err == nil) != mayRead {
			t.Errorf("ListClusters as %s: %+v, %v", u, out, err)
		}
	}
	r, err := http.Post(l.API, "application/x-amz-json-1.1", strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	r.Body.Close()
	if r.StatusCode != http.StatusForbidden {
		t.Errorf("an unsigned request is answered with %s", r.Status)
	}
}

// codeOf returns the code of an AWS error, empty for none.
func codeOf(err error) string {
	var e smithy.APIError
	if errors.As(err, &e) {
		return e.ErrorCode()
	}
	if err != nil {
		return err.Error()
	}
	return ""
}
