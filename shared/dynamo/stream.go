package dynamo

import (
	"fmt"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"berth/shared/cluster"
	"berth/shared/state"
)

// DecodeRecord reads a record of the table's stream, with its old and new row. If its row is of a
// kind that this version does not know, or no row at all, the error is a *cluster.Drop: waiting
// would not help, and a record that fails for ever would block its shard.
func DecodeRecord(r events.DynamoDBEventRecord) (state.Record, error) {
	out := state.Record{Sequence: r.Change.SequenceNumber, Op: state.Op(r.EventName)}
	var err error
	if out.Old, err = decodeStreamImage(r.Change.OldImage); err != nil {
		return state.Record{}, unreadableRecord(r, err)
	}
	if out.New, err = decodeStreamImage(r.Change.NewImage); err != nil {
		return state.Record{}, unreadableRecord(r, err)
	}
	if out.Op == state.Remove {
		out.New = nil
	}
	if out.Row() == nil {
		return state.Record{}, unreadableRecord(r, fmt.Errorf("no row of a known kind"))
	}
	out.Key = state.KeyOf(out.Row())
	return out, nil
}

// unreadableRecord returns the drop of a record, with its event id for the log.
func unreadableRecord(r events.DynamoDBEventRecord, err error) error {
	return &cluster.Drop{Reason: fmt.Sprintf("stream record %s: %v", r.EventID, err)}
}

// decodeStreamImage returns nil for an absent image: an inserted row has no old one.
func decodeStreamImage(attributes map[string]events.DynamoDBAttributeValue) (state.Row, error) {
	if len(attributes) == 0 {
		return nil, nil
	}
	it, err := itemFromStream(attributes)
	if err != nil {
		return nil, err
	}
	return decodeRow(it)
}

// itemFromStream converts the types of the Lambda library to the SDK's, so that decodeRow reads
// both.
func itemFromStream(attributes map[string]events.DynamoDBAttributeValue) (item, error) {
	it := make(item, len(attributes))
	for name, v := range attributes {
		value, err := attributeFromStream(v)
		if err != nil {
			return nil, fmt.Errorf("attribute %s: %w", name, err)
		}
		it[name] = value
	}
	return it, nil
}

// attributeFromStream knows the types that rows have. The Lambda library's values panic if they are
// read as another type, hence the switch.
func attributeFromStream(v events.DynamoDBAttributeValue) (types.AttributeValue, error) {
	switch v.DataType() {
	case events.DataTypeString:
		return stringAttribute(v.String()), nil
	case events.DataTypeNumber:
		return &types.AttributeValueMemberN{Value: v.Number()}, nil
	case events.DataTypeBoolean:
		return &types.AttributeValueMemberBOOL{Value: v.Boolean()}, nil
	case events.DataTypeNull:
		return &types.AttributeValueMemberNULL{Value: true}, nil
	case events.DataTypeList:
		list := make([]types.AttributeValue, len(v.List()))
		for i, e := range v.List() {
			value, err := attributeFromStream(e)
			if err != nil {
				return nil, err
			}
			list[i] = value
		}
		return &types.AttributeValueMemberL{Value: list}, nil
	case events.DataTypeMap:
		fields, err := itemFromStream(v.Map())
		return &types.AttributeValueMemberM{Value: fields}, err
	}
	return nil, fmt.Errorf("no row has values of data type %d", v.DataType())
}
