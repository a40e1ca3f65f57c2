package dynamo_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"testing"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams"
	streamtypes "github.com/aws/aws-sdk-go-v2/service/dynamodbstreams/types"
	"github.com/google/go-cmp/cmp"

	"berth/shared/cluster"
	"berth/shared/dynamo"
	"berth/shared/state"
)

// wiretap keeps the body of the last answer: GetRecords answers in the JSON that Lambda delivers.
type wiretap struct{ body []byte }

func (w *wiretap) Do(r *http.Request) (*http.Response, error) {
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, err
	}
	w.body, err = io.ReadAll(resp.Body)
	resp.Body.Close()
	resp.Body = io.NopCloser(bytes.NewReader(w.body))
	return resp, err
}

// streamed returns the records of the table's stream, as Lambda would deliver them.
func streamed(t *testing.T, s *dynamo.State) []events.DynamoDBEventRecord {
	t.Helper()
	ctx := context.Background()
	db := s.Client.(*dynamodb.Client)
	tap := &wiretap{}
	streams := dynamodbstreams.New(dynamodbstreams.Options{
		Region: db.Options().Region, BaseEndpoint: db.Options().BaseEndpoint, Credentials: db.Options().Credentials,
		HTTPClient: tap,
	})
	table, err := db.DescribeTable(ctx, &dynamodb.DescribeTableInput{TableName: &s.Table})
	if err != nil {
		t.Fatal(err)
	}
	arn := table.Table.LatestStreamArn
	stream, err := streams.DescribeStream(ctx, &dynamodbstreams.DescribeStreamInput{StreamArn: arn})
	if err != nil {
		t.Fatal(err)
	}
	var all []events.DynamoDBEventRecord
	for _, shard := range stream.StreamDescription.Shards {
		it, err := streams.GetShardIterator(ctx, &dynamodbstreams.GetShardIteratorInput{
			StreamArn: arn, ShardId: shard.ShardId, ShardIteratorType: streamtypes.ShardIteratorTypeTrimHorizon,
		})
		if err != nil {
			t.Fatal(err)
		}
		for next := it.ShardIterator; next != nil; {
			page, err := streams.GetRecords(ctx, &dynamodbstreams.GetRecordsInput{ShardIterator: next})
			if err != nil {
				t.Fatal(err)
			}
			if len(page.Records) == 0 {
				break // an open shard has no end
			}
			var e events.DynamoDBEvent
			if err := json.Unmarshal(tap.body, &e); err != nil {
				t.Fatal(err)
			}
			all = append(all, e.Records...)
			next = page.NextShardIterator
		}
	}
	return all
}

func TestStreamRecordsAreDecoded(t *testing.T) {
	s := open(t)
	ctx := context.Background()
	exit := 137
	task := &cluster.Task{
		Head: cluster.Head{Cluster: "c", Rev: 1, Stamp: 1 << 60},
		TaskSpec: cluster.TaskSpec{
			ID: "t", Owner: "o", TaskDefinition: "web:1", Needs: cluster.Resources{CPU: 256_000, Memory: 512},
			Ports: []cluster.Port{{Number: 80, Protocol: cluster.TCP}}, Tags: map[string]string{"k": ""},
			CreatedAt: cluster.At(t0),
			Overrides: &cluster.Overrides{Containers: []cluster.ContainerOverride{{Name: "a", Command: nil}}},
		},
		TaskAssignment: cluster.TaskAssignment{GPUs: []int{0, 1}, Desired: cluster.TaskRunning},
		TaskReport:     cluster.TaskReport{ExitCode: &exit},
	}
	stop := state.Write{Stop: &state.Stop{Task: state.KeyOf(task), Code: "UserInitiated", Reason: "why"}}
	after, _ := stop.Apply(task)
	key := state.KeyOf(task)
	for _, w := range []state.Write{{Put: task}, stop, {Delete: &key}, {Delete: &key}} {
		if _, err := s.Write(ctx, w); err != nil {
			t.Fatal(err)
		}
	}
	want := []state.Record{
		{Op: state.Insert, Key: key, New: task},
		{Op: state.Modify, Key: key, Old: task, New: after},
		{Op: state.Remove, Key: key, Old: after},
	}
	var got []state.Record
	last := ""
	for _, r := range streamed(t, s) {
		record, err := dynamo.DecodeRecord(r)
		if err != nil {
			t.Fatal(err)
		}
		if record.Sequence <= last {
			t.Errorf("sequence %q follows %q", record.Sequence, last)
		}
		last, record.Sequence = record.Sequence, ""
		got = append(got, record)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("records (-want +got):\n%s", diff)
	}
}

func TestUnreadableStreamRecordsAreDropped(t *testing.T) {
	for name, body := range map[string]string{
		"UnknownKind": `{"eventName":"INSERT","dynamodb":{"NewImage":{"pk":{"S":"c"},"sk":{"S":"future#1"}}}}`,
		"NoImage":     `{"eventName":"INSERT","dynamodb":{"Keys":{"pk":{"S":"c"},"sk":{"S":"task#o#t"}}}}`,
		"WrongType":   `{"eventName":"INSERT","dynamodb":{"NewImage":{"pk":{"S":"c"},"sk":{"S":"meta"},"rv":{"S":"1"}}}}`,
		"Set":         `{"eventName":"INSERT","dynamodb":{"NewImage":{"pk":{"S":"c"},"sk":{"S":"meta"},"x":{"SS":["1"]}}}}`,
		"NoSortKey":   `{"eventName":"REMOVE","dynamodb":{"OldImage":{"pk":{"S":"c"}}}}`,
	} {
		t.Run(name, func(t *testing.T) {
			var r events.DynamoDBEventRecord
			if err := json.Unmarshal([]byte(body), &r); err != nil {
				t.Fatal(err)
			}
			var drop *cluster.Drop
			if _, err := dynamo.DecodeRecord(r); !errors.As(err, &drop) {
				t.Errorf("Record = %v, want a drop", err)
			}
		})
	}
}

// TestRowsOfNewerVersionsAreLeftOut: during a deployment old code meets rows of kinds that it does
// not know.
func TestRowsOfNewerVersionsAreLeftOut(t *testing.T) {
	s := open(t)
	ctx := context.Background()
	_, err := s.Client.PutItem(ctx, &dynamodb.PutItemInput{TableName: aws.String(s.Table),
		Item: attributeNames("c", "future#1")})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Write(ctx, instanceWrite("i")); err != nil {
		t.Fatal(err)
	}
	rows, err := s.List(ctx, state.Prefix("c", ""))
	if err != nil || len(rows) != 1 {
		t.Errorf("List = %v, %v; want the instance alone", rows, err)
	}
}
