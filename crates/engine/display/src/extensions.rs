//! The requests of extensions, each as its own specification has them.
//!
//! Deliberately absent: those that draw by other means than requests (GLX's own, DRI2, DRI3). A program that draws
//! with OpenGL on the processor sends pictures.

use crate::table::Field::{Format, Id, Ids, Values};
use crate::table::{Act, Row, ask, cannot, draw, other, special};

/// What an extension's requests are.
#[derive(Debug, Clone, Copy)]
pub enum Requests {
    Rows(&'static [Row]),
    /// None of them changes a picture.
    NonePaints,
}

/// The requests of the extension of that name; `None`: they are not known here.
pub fn requests(name: &[u8]) -> Option<Requests> {
    Some(match name {
        b"RENDER" => Requests::Rows(RENDER),
        b"SHAPE" => Requests::Rows(SHAPE),
        b"XFIXES" => Requests::Rows(XFIXES),
        b"MIT-SHM" => Requests::Rows(SHM),
        b"Composite" => Requests::Rows(COMPOSITE),
        b"DOUBLE-BUFFER" => Requests::Rows(DOUBLE_BUFFER),
        b"Present" => Requests::Rows(PRESENT),
        b"DAMAGE" => Requests::Rows(DAMAGE),
        b"DRI3" => Requests::Rows(DRI3),
        b"GLX" => Requests::Rows(GLX),
        b"BIG-REQUESTS"
        | b"XC-MISC"
        | b"XKEYBOARD"
        | b"XInputExtension"
        | b"RANDR"
        | b"XINERAMA"
        | b"SYNC"
        | b"XTEST"
        | b"RECORD"
        | b"DPMS"
        | b"MIT-SCREEN-SAVER"
        | b"X-Resource"
        | b"SECURITY"
        | b"Generic Event Extension"
        | b"XFree86-VidModeExtension" => Requests::NonePaints,
        _ => return None,
    })
}

/// Values of a picture that are resources: the alpha map, the clip mask.
const OF_PICTURE: u32 = 1 << 1 | 1 << 6;
const SHAPES: &[crate::table::Field] = &[Id(4), Id(8), Format(12)];

const RENDER: &[Row] = &[
    special(0, "QueryVersion", Act::Version, &[]),
    special(1, "QueryPictFormats", Act::AskFormats, &[]),
    ask(2, "QueryPictIndexValues"),
    special(4, "CreatePicture", Act::Picture, &[Id(0), Id(4), Format(8), Values(12, 4, OF_PICTURE)]),
    draw(5, "ChangePicture", &[Id(0), Values(4, 4, OF_PICTURE)]),
    draw(6, "SetPictureClipRectangles", &[Id(0)]),
    special(7, "FreePicture", Act::Free, &[Id(0)]),
    draw(8, "Composite", &[Id(4), Id(8), Id(12)]),
    draw(10, "Trapezoids", SHAPES),
    draw(11, "Triangles", SHAPES),
    draw(12, "TriStrip", SHAPES),
    draw(13, "TriFan", SHAPES),
    draw(17, "CreateGlyphSet", &[Id(0), Format(4)]),
    draw(18, "ReferenceGlyphSet", &[Id(0), Id(4)]),
    draw(19, "FreeGlyphSet", &[Id(0)]),
    draw(20, "AddGlyphs", &[Id(0)]),
    draw(22, "FreeGlyphs", &[Id(0)]),
    special(23, "CompositeGlyphs8", Act::Glyphs(1), &[Id(4), Id(8), Format(12), Id(16)]),
    special(24, "CompositeGlyphs16", Act::Glyphs(2), &[Id(4), Id(8), Format(12), Id(16)]),
    special(25, "CompositeGlyphs32", Act::Glyphs(4), &[Id(4), Id(8), Format(12), Id(16)]),
    draw(26, "FillRectangles", &[Id(4)]),
    draw(27, "CreateCursor", &[Id(0), Id(4)]),
    draw(28, "SetPictureTransform", &[Id(0)]),
    ask(29, "QueryFilters"),
    draw(30, "SetPictureFilter", &[Id(0)]),
    draw(31, "CreateAnimCursor", &[Id(0), Ids(4, 8)]),
    draw(32, "AddTraps", &[Id(0)]),
    draw(33, "CreateSolidFill", &[Id(0)]),
    draw(34, "CreateLinearGradient", &[Id(0)]),
    draw(35, "CreateRadialGradient", &[Id(0)]),
    draw(36, "CreateConicalGradient", &[Id(0)]),
];

const SHAPE: &[Row] = &[
    ask(0, "QueryVersion"),
    draw(1, "Rectangles", &[Id(4)]),
    draw(2, "Mask", &[Id(4), Id(12)]),
    draw(3, "Combine", &[Id(4), Id(12)]),
    draw(4, "Offset", &[Id(4)]),
    ask(5, "QueryExtents"),
    other(6, "SelectInput"),
    ask(7, "InputSelected"),
    ask(8, "GetRectangles"),
];

const XFIXES: &[Row] = &[
    special(0, "QueryVersion", Act::Version, &[]),
    other(1, "ChangeSaveSet"),
    other(2, "SelectSelectionInput"),
    other(3, "SelectCursorInput"),
    ask(4, "GetCursorImage"),
    draw(5, "CreateRegion", &[Id(0)]),
    draw(6, "CreateRegionFromBitmap", &[Id(0), Id(4)]),
    draw(7, "CreateRegionFromWindow", &[Id(0), Id(4)]),
    draw(8, "CreateRegionFromGC", &[Id(0), Id(4)]),
    draw(9, "CreateRegionFromPicture", &[Id(0), Id(4)]),
    draw(10, "DestroyRegion", &[Id(0)]),
    draw(11, "SetRegion", &[Id(0)]),
    draw(12, "CopyRegion", &[Id(0), Id(4)]),
    draw(13, "UnionRegion", &[Id(0), Id(4), Id(8)]),
    draw(14, "IntersectRegion", &[Id(0), Id(4), Id(8)]),
    draw(15, "SubtractRegion", &[Id(0), Id(4), Id(8)]),
    draw(16, "InvertRegion", &[Id(0), Id(12)]),
    draw(17, "TranslateRegion", &[Id(0)]),
    draw(18, "RegionExtents", &[Id(0), Id(4)]),
    ask(19, "FetchRegion"),
    draw(20, "SetGCClipRegion", &[Id(0), Id(4)]),
    draw(21, "SetWindowShapeRegion", &[Id(0), Id(12)]),
    draw(22, "SetPictureClipRegion", &[Id(0), Id(4)]),
    other(23, "SetCursorName"),
    ask(24, "GetCursorName"),
    ask(25, "GetCursorImageAndName"),
    other(26, "ChangeCursor"),
    other(27, "ChangeCursorByName"),
    draw(28, "ExpandRegion", &[Id(0), Id(4)]),
    other(29, "HideCursor"),
    other(30, "ShowCursor"),
    other(31, "CreatePointerBarrier"),
    other(32, "DeletePointerBarrier"),
    other(33, "SetClientDisconnectMode"),
    ask(34, "GetClientDisconnectMode"),
];

const SHM: &[Row] = &[
    ask(0, "QueryVersion"),
    special(1, "Attach", Act::AttachSegment, &[]),
    other(2, "Detach"),
    special(3, "PutImage", Act::SharedImage, &[Id(0), Id(4)]),
    ask(4, "GetImage"),
    special(5, "CreatePixmap", Act::SharedPixmap, &[Id(0), Id(4)]),
    special(6, "AttachFd", Act::AttachDescriptor, &[]),
    special(7, "CreateSegment", Act::AskSegment, &[]),
];

const COMPOSITE: &[Row] = &[
    special(0, "QueryVersion", Act::Version, &[]),
    draw(1, "RedirectWindow", &[Id(0)]),
    draw(2, "RedirectSubwindows", &[Id(0)]),
    draw(3, "UnredirectWindow", &[Id(0)]),
    draw(4, "UnredirectSubwindows", &[Id(0)]),
    draw(5, "CreateRegionFromBorderClip", &[Id(0), Id(4)]),
    draw(6, "NameWindowPixmap", &[Id(0), Id(4)]),
    cannot(7, "GetOverlayWindow"),
    other(8, "ReleaseOverlayWindow"),
];

const DOUBLE_BUFFER: &[Row] = &[
    ask(0, "GetVersion"),
    draw(1, "AllocateBackBuffer", &[Id(0), Id(4)]),
    draw(2, "DeallocateBackBuffer", &[Id(0)]),
    draw(3, "SwapBuffers", &[Ids(4, 8)]),
    draw(4, "BeginIdiom", &[]),
    draw(5, "EndIdiom", &[]),
    ask(6, "GetVisualInfo"),
    ask(7, "GetBackBufferAttributes"),
];

const PRESENT: &[Row] = &[
    special(0, "QueryVersion", Act::Version, &[]),
    special(1, "Pixmap", Act::Present, &[Id(0), Id(4), Id(12), Id(16)]),
    other(2, "NotifyMSC"),
    other(3, "SelectInput"),
    ask(4, "QueryCapabilities"),
];

/// Its events are for programs; but which parts were drawn to goes into regions, and these into what is presented.
const DAMAGE: &[Row] = &[
    special(0, "QueryVersion", Act::Version, &[]),
    draw(1, "Create", &[Id(0), Id(4)]),
    draw(2, "Destroy", &[Id(0)]),
    draw(3, "Subtract", &[Id(0), Id(4), Id(8)]),
    draw(4, "Add", &[Id(0), Id(4)]),
];

const DRI3: &[Row] = &[
    ask(0, "QueryVersion"),
    special(1, "Open", Act::AskDescriptors, &[]),
    special(2, "PixmapFromBuffer", Act::TakesDescriptor, &[]),
    special(3, "BufferFromPixmap", Act::AskDescriptors, &[]),
    special(4, "FenceFromFD", Act::TakesDescriptor, &[]),
    special(5, "FDFromFence", Act::AskDescriptors, &[]),
    ask(6, "GetSupportedModifiers"),
    special(7, "PixmapFromBuffers", Act::TakesDescriptors(8), &[]),
    special(8, "BuffersFromPixmap", Act::AskDescriptors, &[]),
];

const GLX: &[Row] = &[
    cannot(1, "Render"),
    cannot(2, "RenderLarge"),
    other(3, "CreateContext"),
    other(4, "DestroyContext"),
    other(5, "MakeCurrent"),
    ask(6, "IsDirect"),
    ask(7, "QueryVersion"),
    other(8, "WaitGL"),
    other(9, "WaitX"),
    cannot(10, "CopyContext"),
    cannot(11, "SwapBuffers"),
    cannot(12, "UseXFont"),
    other(13, "CreateGLXPixmap"),
    ask(14, "GetVisualConfigs"),
    other(15, "DestroyGLXPixmap"),
    cannot(16, "VendorPrivate"),
    ask(17, "VendorPrivateWithReply"),
    ask(18, "QueryExtensionsString"),
    ask(19, "QueryServerString"),
    other(20, "ClientInfo"),
    ask(21, "GetFBConfigs"),
    other(22, "CreatePixmap"),
    other(23, "DestroyPixmap"),
    other(24, "CreateNewContext"),
    ask(25, "QueryContext"),
    other(26, "MakeContextCurrent"),
    other(27, "CreatePbuffer"),
    other(28, "DestroyPbuffer"),
    ask(29, "GetDrawableAttributes"),
    other(30, "ChangeDrawableAttributes"),
    other(31, "CreateWindow"),
    other(32, "DeleteWindow"),
    other(33, "SetClientInfoARB"),
    other(34, "CreateContextAttribsARB"),
    other(35, "SetClientInfo2ARB"),
];
