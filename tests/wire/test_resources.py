"""Resources and templates."""

from __future__ import annotations

from antiphon.wire.common import Annotations
from antiphon.wire.content import ResourceContents
from antiphon.wire.envelope import decode_wire, encode_value
from antiphon.wire.resources import ReadResourceResult, Resource, ResourceTemplate


def test_a_resource_comes_back():
    """With everything that describes it."""
    resource = Resource(
        uri="file:///a",
        name="a",
        mime_type="text/plain",
        size=0,
        annotations=Annotations(audience=["user"], priority=0),
    )
    assert decode_wire(encode_value(resource), Resource) == resource
    assert b'"size":0' in encode_value(resource)
    assert b'"priority":0' in encode_value(resource)


def test_a_template_has_gaps():
    """Its URI is no URI yet."""
    assert encode_value(ResourceTemplate(uri_template="a://{b}", name="b")) == b'{"uriTemplate":"a://{b}","name":"b"}'


def test_a_result_holds_text_and_blobs():
    """Side by side."""
    result = ReadResourceResult(contents=[ResourceContents.of("a:b", "x"), ResourceContents.of("a:c", b"y")])
    assert [part.bytes for part in decode_wire(encode_value(result), ReadResourceResult).contents] == [b"x", b"y"]
