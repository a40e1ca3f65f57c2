package awsapi_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/google/go-cmp/cmp"

	"berth/shared/awsapi"
	"berth/shared/cluster"
	"berth/shared/sim"
	"berth/shared/sim/ec2"
)

// codeOf returns the code of an error that EC2 answered with; empty for any other and for none.
func codeOf(err error) cluster.Code {
	var refused *cluster.Error
	if errors.As(err, &refused) {
		return refused.Code
	}
	return ""
}

// The adapter and the simulated EC2 in process give the same errors for the same ids.
func TestNetworksOfTheSimulatedEC2(t *testing.T) {
	f, err := sim.Open(sim.Options{Clock: &clock{}, Account: cluster.Account{ID: "123456789012", Region: "eu-west-1"}})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(f.ServeProtocols(http.NotFoundHandler()))
	t.Cleanup(server.Close)
	adapter := &awsapi.Networks{Config: aws.Config{Region: "eu-west-1", BaseEndpoint: &server.URL,
		Credentials: testCredentials, HTTPClient: http.DefaultClient}}
	type port interface {
		CheckSubnets(ctx context.Context, ids []string) error
		CheckSecurityGroups(ctx context.Context, ids []string) error
	}
	for ids, want := range map[string][2]cluster.Code{
		"subnet-1 subnet-2": {"", "InvalidGroup.NotFound"},
		"sg-1":              {"InvalidSubnetID.NotFound", ""},
		"subnet- <a&'b'>":   {"InvalidSubnetID.NotFound", "InvalidGroup.NotFound"},
	} {
		list := strings.Fields(ids)
		for name, p := range map[string]port{"Adapter": adapter, "InProcess": ec2.Networks{}} {
			subnets, groups := p.CheckSubnets(t.Context(), list), p.CheckSecurityGroups(t.Context(), list)
			if got := [2]cluster.Code{codeOf(subnets), codeOf(groups)}; got != want {
				t.Errorf("%s, %s: %v and %v, want %q", name, ids, subnets, groups, want)
			}
			if direct := (ec2.Networks{}).CheckSubnets(t.Context(), list); subnets != nil &&
				subnets.Error() != direct.Error() {
				t.Errorf("%s, %s: %v, want %v", name, ids, subnets, direct)
			}
		}
	}
}

// A look-up is a request of the Query protocol, signed for EC2. An answer that is no error of EC2
// is no verdict on the network.
func TestNetworksSpeakEC2sProtocol(t *testing.T) {
	status, body := http.StatusOK, ""
	var seen []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = r.ParseForm()
		scope := strings.Split(r.Header.Get("Authorization"), "/")
		seen = append(seen, r.Method, r.URL.Path, strings.Join(scope[1:4], " "), r.PostForm.Encode())
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	}))
	t.Cleanup(server.Close)
	n := &awsapi.Networks{Now: func() time.Time { return time.Date(2026, 11, 23, 8, 0, 0, 0, time.UTC) },
		Config: aws.Config{Region: "eu-west-1", BaseEndpoint: &server.URL, Credentials: testCredentials,
			HTTPClient: http.DefaultClient}}
	if err := n.CheckSecurityGroups(t.Context(), []string{"sg-1", "sg-2"}); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff([]string{"POST", "/", "20261123 eu-west-1 ec2",
		"Action=DescribeSecurityGroups&GroupId.1=sg-1&GroupId.2=sg-2&Version=2016-11-15"}, seen); diff != "" {
		t.Errorf("the request (-want +got):\n%s", diff)
	}
	status, body = http.StatusBadGateway, "<html>no</html>"
	err := n.CheckSubnets(t.Context(), []string{"subnet-1"})
	if err == nil || codeOf(err) != "" || !strings.Contains(err.Error(), "502") {
		t.Errorf("%v, want an error that is not EC2's", err)
	}
}

// Without an address of its own, EC2 is asked where the Region has it.
func TestNetworksFindEC2(t *testing.T) {
	for region, want := range map[string]string{
		"eu-west-1": "ec2.eu-west-1.amazonaws.com", "cn-north-1": "ec2.cn-north-1.amazonaws.com.cn",
		"us-iso-east-1": "ec2.us-iso-east-1.c2s.ic.gov",
	} {
		asked := ""
		n := &awsapi.Networks{Config: aws.Config{Region: region, Credentials: testCredentials,
			HTTPClient: roundTrip(func(r *http.Request) { asked = r.URL.Host })}}
		if err := n.CheckSubnets(t.Context(), []string{"subnet-1"}); err == nil || asked != want {
			t.Errorf("%s: asked %q (%v), want %q", region, asked, err, want)
		}
	}
}

// roundTrip is a client that sends nothing.
type roundTrip func(*http.Request)

func (f roundTrip) Do(r *http.Request) (*http.Response, error) {
	f(r)
	return nil, context.DeadlineExceeded
}
