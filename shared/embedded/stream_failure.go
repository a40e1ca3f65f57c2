package embedded

import (
	"encoding/json"
	"time"
)

// failureRecord is what Lambda sends to the on-failure destination of a stream: which records were
// given up and why, but not the records (Lambda, retaining discarded records). Example, shortened:
//
//	{
//	  "requestContext": {"condition": "RetryAttemptsExhausted", "approximateInvokeCount": 3},
//	  "DDBStreamBatchInfo": {
//	    "startSequenceNumber": "00000000000000000041", "endSequenceNumber": "00000000000000000043",
//	    "batchSize": 3
//	  }
//	}
type failureRecord struct {
	Version        string          `json:"version"`
	Timestamp      time.Time       `json:"timestamp"`
	RequestContext failureRequest  `json:"requestContext"`
	Response       failureResponse `json:"responseContext"`
	Batch          failureBatch    `json:"DDBStreamBatchInfo"`
}

type failureRequest struct {
	RequestID   string `json:"requestId"`
	FunctionARN string `json:"functionArn"`
	// Condition is RetryAttemptsExhausted or RecordAgeExceeded.
	Condition   string `json:"condition"`
	InvokeCount int    `json:"approximateInvokeCount"`
}

type failureResponse struct {
	StatusCode      int    `json:"statusCode"`
	ExecutedVersion string `json:"executedVersion"`
	FunctionError   string `json:"functionError"`
}

type failureBatch struct {
	ShardID      string    `json:"shardId"`
	Start        string    `json:"startSequenceNumber"`
	End          string    `json:"endSequenceNumber"`
	FirstArrival time.Time `json:"approximateArrivalOfFirstRecord"`
	LastArrival  time.Time `json:"approximateArrivalOfLastRecord"`
	Size         int       `json:"batchSize"`
	StreamARN    string    `json:"streamArn"`
}

// discardRecords gives up the first n records and reports them to the on-failure queue, if there is
// one.
func (s *streamSource) discardRecords(n int, condition string) {
	s.function.count.Discarded += n
	name, first, last := s.function.wiring.Name, s.records[0], s.records[n-1]
	s.runtime.log.Error("gave up records", "function", name, "condition", condition, "records", n,
		"first", first.Sequence, "last", last.Sequence)
	if q := s.runtime.queues[s.wiring.OnFailure]; q != nil {
		failures := 0
		if len(s.parts) > 0 {
			failures = s.parts[0].failures
		}
		body, err := json.Marshal(failureRecord{
			Version: "1.0", Timestamp: s.runtime.loop.Now(),
			RequestContext: failureRequest{
				RequestID:   name + "-" + first.Sequence,
				FunctionARN: localARN("lambda", "function:"+s.function.wiring.LogicalID),
				Condition:   condition, InvokeCount: failures,
			},
			Response: failureResponse{StatusCode: 200, ExecutedVersion: "$LATEST", FunctionError: "Unhandled"},
			Batch: failureBatch{
				ShardID: "shardId-00000000000000000000-00000000", Start: first.Sequence, End: last.Sequence,
				FirstArrival: first.arrived, LastArrival: last.arrived, Size: n,
				StreamARN: localARN("dynamodb", "table/"+s.wiring.Table+"/stream/embedded"),
			},
		})
		if err == nil {
			q.count.Sends++
			q.sendMessage(body, 0)
		}
	}
	s.advancePosition(n)
}
