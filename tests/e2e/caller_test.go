package e2e

import (
	"errors"
	"net/http"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/smithy-go"

	"berth/tests/cloud"
)

// TestCallers calls the API through the function URL of the local cloud tier as IAM users with
// different rights: the emulator checks signatures and policies, and names the caller.
func TestCallers(t *testing.T) {
	l := newLocal(t, nil)
	clients, keys := map[cloud.Caller]*ecs.Client{}, map[cloud.Caller]aws.Credentials{}
	for _, u := range []cloud.Caller{cloud.Reader, cloud.Writer, cloud.Manager, cloud.Operator, cloud.Stranger} {
		as, err := l.CreateCaller(t.Context(), u)
		if err != nil {
			t.Fatal(err)
		}
		clients[u], keys[u] = l.ClientAs(as), as
	}
	for u, want := range map[cloud.Caller]string{cloud.Reader: "AccessDeniedException", cloud.Writer: "",
		cloud.Manager: "AccessDeniedException", cloud.Operator: "", cloud.Stranger: "AccessDeniedException"} {
		name := "of-" + string(u)
		_, err := clients[u].CreateCluster(t.Context(), &ecs.CreateClusterInput{ClusterName: &name})
		if code := codeOf(err); code != want {
			t.Errorf("CreateCluster as %s: %v, want %q", u, err, want)
		}
		log, err := l.FunctionLog(t.Context(), "api", time.Time{})
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
	for _, service := range []string{"ecs", "eks"} {
		if status, err := l.StatusSignedFor(t.Context(), service); status != http.StatusForbidden {
			t.Errorf("a request that is signed for %s is answered with %d, %v", service, status, err)
		}
	}
	t.Run("ThroughTheProxy", func(t *testing.T) { callThroughProxy(t, l, keys) })
}

// callThroughProxy runs the real AWS CLI as users with different rights, by `berth proxy` with the
// stack's name.
func callThroughProxy(t *testing.T, l *local, keys map[cloud.Caller]aws.Credentials) {
	needsAWS(t)
	berth := builtOptions(t).Berth
	const denied = "AccessDeniedException"
	for _, c := range []struct {
		caller        cloud.Caller
		command, want string
	}{
		{cloud.Writer, "aws ecs create-cluster --cluster-name by-proxy", `"clusterName": "by-proxy"`},
		{cloud.Reader, "aws ecs describe-clusters --clusters by-proxy", `"status": "ACTIVE"`},
		{cloud.Reader, "aws ecs delete-cluster --cluster by-proxy",
			"user/reader is not authorized to perform: DeleteCluster"},
		{cloud.Manager, "aws ecs delete-cluster --cluster by-proxy", denied},
		{cloud.Writer, "aws eks delete-nodegroup --cluster-name by-proxy --nodegroup-name g", denied},
		{cloud.Manager, "aws eks delete-nodegroup --cluster-name by-proxy --nodegroup-name g",
			"ResourceNotFoundException"},
		{cloud.Stranger, "aws ecs list-clusters", "needs the policy arn:aws:iam::000000000000:policy/"},
		{cloud.Stranger, "aws eks list-nodegroups --cluster-name by-proxy", denied},
		{cloud.Reader, "aws sts get-caller-identity", cloud.Reader.ARN()},
		{cloud.Writer, "sh -c 'AWS_ACCESS_KEY_ID=guess aws ecs list-clusters'", "UnrecognizedClientException"},
		{cloud.Writer, "sh -c 'AWS_SECRET_ACCESS_KEY=guess aws ecs list-clusters'", "InvalidSignatureException"},
		{cloud.Writer, "aws ecs list-clusters --no-sign-request", "MissingAuthenticationTokenException"},
		{cloud.Writer, "aws sns list-topics", "InvalidClientTokenId"}, // the random key is for Berth alone
	} {
		out := runAs(t, l, keys[c.caller], berth+" proxy --stack "+cloud.StackName+" -- "+c.command)
		if !strings.Contains(out, c.want) {
			t.Errorf("%s as %s prints %s, want %q", c.command, c.caller, out, c.want)
		}
	}
	for command, want := range map[string]string{
		"proxy --stack berth --keep-credentials -- aws sts get-caller-identity": cloud.Reader.ARN(),
		"proxy --stack berth --keep-credentials -- aws ecs list-clusters":       "cluster/by-proxy",
		"explain cluster --cluster by-proxy --stack berth":                      "instances accept tasks",
		"explain cluster --stack other":                                         "there is no such stack in us-east-1",
		"explain cluster --endpoint " + l.API + " --cluster by-proxy":           "instances accept tasks",
	} {
		if out := runAs(t, l, keys[cloud.Reader], berth+" "+command); !strings.Contains(out, want) {
			t.Errorf("berth %s prints %s, want %q", command, out, want)
		}
	}
	log, err := l.FunctionLog(t.Context(), "api", time.Time{})
	line := `"operation":"CreateCluster","principal":"` + cloud.Writer.ARN() + `","subject":"by-proxy"`
	if err != nil || strings.Count(log, line) != 1 {
		t.Errorf("the log has no line with %s: %v\n%s", line, err, log)
	}
}

// runAs runs a command with the credentials, and returns what it prints, whatever its exit code.
func runAs(t *testing.T, l *local, as aws.Credentials, command string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "sh", "-c", command)
	cmd.Env = append(newShell(t, time.Minute).env, l.ClientEnvironment(as)...)
	out, _ := cmd.CombinedOutput()
	return string(out)
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
