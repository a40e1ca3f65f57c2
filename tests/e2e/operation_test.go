package e2e

import (
	"bytes"
	"net/http"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"

	"berth/shared/wire/awsjson"
	"berth/shared/wire/eksapi"
)

// Each operation of both APIs has an answer on the embedded tier, and none is a fault of Berth.
func TestEveryOperationAnswers(t *testing.T) {
	v := newVirtual(t)
	send := func(name, method, path, target, body string) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), method, "http://127.0.0.1"+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/x-amz-json-1.1")
		if target != "" {
			r.Header.Set("X-Amz-Target", target)
		}
		got, err := inlineClient{v.Server}.Do(r) // unchecked: the bodies are wrong on purpose
		if err != nil {
			t.Fatal(err)
		}
		var answer bytes.Buffer
		if _, err := answer.ReadFrom(got.Body); err != nil {
			t.Fatal(err)
		}
		if got.StatusCode >= http.StatusInternalServerError || answer.Len() == 0 {
			t.Errorf("%s %s: %d %s", name, body, got.StatusCode, &answer)
		}
	}
	for _, op := range awsjson.OperationNames() {
		for _, body := range []string{"", `{}`, `{"cluster":"default","service":"s","services":["s"],"tasks":["t"],"task":"t"}`} {
			send(op, http.MethodPost, "/", "AmazonEC2ContainerServiceV20141113."+op, body)
		}
	}
	for _, operations := range []map[string]eksapi.Endpoint{eksapi.Operations(), eksapi.RefusedOperations()} {
		for name, e := range operations {
			path := strings.NewReplacer("{c}", "default", "{n}", "n", "{u}", "u", "{}", "x",
				"{arn}", "arn:aws:eks:us-east-1:123456789012:nodegroup/default/n/u").Replace(e.Path)
			send(name, e.Method, path, "", "{}")
		}
	}
}

// A new cluster has the Container Insights that the account's default says.
func TestAccountSettingOfNewClusters(t *testing.T) {
	v := newVirtual(t)
	insights := types.SettingNameContainerInsights
	if _, err := v.client.PutAccountSettingDefault(t.Context(),
		&ecs.PutAccountSettingDefaultInput{Name: insights, Value: aws.String("enhanced")}); err != nil {
		t.Fatal(err)
	}
	made, err := v.client.CreateCluster(t.Context(), &ecs.CreateClusterInput{ClusterName: aws.String("observed")})
	if err != nil {
		t.Fatal(err)
	}
	if s := made.Cluster.Settings; len(s) != 1 || *s[0].Value != "enhanced" {
		t.Errorf("the settings of the new cluster are %v", s)
	}
}
