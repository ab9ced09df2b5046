"""Delete files written by Iceberg's own Java writers (1.12.0), read here.

The files are compressed and spelled in base 85. `every type` has three rows: one value of each type, nothing,
and a nested value with NaN; `named types` has columns that share a fixed type, which Avro writes once.
"""

import base64
import uuid
import zlib
from decimal import Decimal

import numpy as np
import pytest

from icepact.execute.deletes.equality import KeySet, read_key_rows
from icepact.execute.deletes.errors import UnsupportedDelete
from icepact.execute.deletes.kinds import comparable
from icepact.execute.deletes.positions import read_positions
from icepact.execute.deletes.vectors import decode_vector
from icepact.model.files import DeleteFile, DeleteKind
from tests.support.states import delete_file

TYPES = {
    1: "boolean",
    2: "int",
    3: "long",
    4: "float",
    5: "double",
    6: "decimal(9, 2)",
    7: "decimal(18, 4)",
    8: "decimal(38, 10)",
    9: "date",
    10: "time",
    11: "timestamp",
    12: "timestamptz",
    13: "string",
    14: "uuid",
    15: "fixed[3]",
    16: "binary",
    18: "string",
    20: "int",
}
FIRST = {
    1: True,
    2: -5,
    3: 2**40,
    4: 1.5,
    5: -0.0,
    6: Decimal("1.23"),
    7: Decimal("-12345678901234.5678"),
    8: Decimal("1234567890123456789012345678.0123456789"),
    9: -1,
    10: 3_723_000_004,
    11: -1,
    12: 1_709_208_000_000_001,
    13: "grüße",
    14: uuid.UUID("f79c3e09-677c-4bbd-a479-3f349cb785e7"),
    15: b"\x00\xff\x01",
    16: b"\xff\x00",
}
LAST = {3: 1, 4: float("nan"), 5: float("nan"), 18: "in", 20: 7}
ORC_CANNOT = {11, 12}


def read(name: str, format: str) -> bytes:
    return zlib.decompress(base64.b85decode(FILES[name, format]))


def ref(format: str, records: int, ids: tuple[int, ...] = ()) -> DeleteFile:
    kind = DeleteKind.EQUALITY if ids else DeleteKind.POSITION
    return delete_file(path=f"d.{format}", kind=kind, format=format, size=1, records=records, equality_ids=ids)


@pytest.mark.parametrize(
    ("name", "format"),
    [("every type", "parquet"), ("every type", "avro"), ("every type, zstd", "avro"), ("every type", "orc")],
)
def test_every_type_is_read_as_java_wrote_it(name: str, format: str) -> None:
    types = {i: t for i, t in TYPES.items() if format != "orc" or i not in ORC_CANNOT}
    columns = read_key_rows(ref(format, 3, tuple(types)), read(name, format), types, {})
    for (field_id, kind), column in zip(types.items(), columns, strict=True):
        rows = [None if null else value for null, value in zip(column.is_null, column.values.tolist(), strict=True)]
        assert rows == [comparable(kind, row.get(field_id)) for row in (FIRST, {}, LAST)], (field_id, kind)


@pytest.mark.parametrize("field_id", sorted(ORC_CANNOT))
def test_timestamps_in_orc_are_left_to_others(field_id: int) -> None:
    types = {field_id: TYPES[field_id]}
    with pytest.raises(UnsupportedDelete, match=r"d\.orc: timestamps in ORC"):
        read_key_rows(ref("orc", 3, (field_id,)), read("every type", "orc"), types, {})


@pytest.mark.parametrize("format", ["parquet", "avro", "orc"])
def test_columns_that_share_a_named_type(format: str) -> None:
    types = {2: "decimal(9,2)", 3: "string", 5: "uuid"}
    columns = read_key_rows(ref(format, 3, (2, 3, 5)), read("named types", format), types, {})
    assert columns[0].values.tolist() == [-200, -201, -202]
    assert columns[1].values.to_pylist() == [b"x0", b"x1", b"x2"]
    halves = [n.to_bytes(8, "big") + (-n).to_bytes(8, "big", signed=True) for n in range(3)]
    assert columns[2].values.to_pylist() == halves


@pytest.mark.parametrize("format", ["parquet", "avro", "orc"])
def test_an_absent_column_is_its_constant(format: str) -> None:
    types = {99: "long", 98: "string", 2: "decimal(9,2)"}
    columns = read_key_rows(ref(format, 3, (99, 98, 2)), read("named types", format), types, {99: 7})
    assert columns[0].values.tolist() == [7, 7, 7]
    assert columns[0].nulls is None
    assert columns[1].is_null.tolist() == [True, True, True]
    only_absent = read_key_rows(ref(format, 3, (99,)), read("named types", format), {99: "long"}, {99: 7})
    assert KeySet({99: "long"}, [only_absent]).matches({99: 7}, rows=2).tolist() == [True, True]


@pytest.mark.parametrize("format", ["parquet", "avro", "orc"])
def test_positions_by_path(format: str) -> None:
    index = read_positions(ref(format, 3), read("positions", format))
    assert index.of("s3://b/a.parquet").tolist() == [0, 7]
    assert index.of("s3://b/b.parquet").tolist() == [3]
    assert index.of("s3://b/c.parquet").tolist() == []


def test_a_vector_with_bit_sets_and_a_run() -> None:
    blob = read("vector", "puffin")
    vector = delete_file(path="v.puffin", kind=DeleteKind.DV, format="puffin", size=len(blob), records=85_716)
    rows = np.arange(300_000)
    expected = rows[(rows % 7 == 0) | ((rows >= 100_000) & (rows <= 150_000))]
    assert np.array_equal(decode_vector(blob, vector), expected)


FILES = {
    ("vector", "puffin"): (
        "c-"
        "rmRF%AJy7=_V0V<dDMwJ9uMIzcl_k+2YYl~QF(qP7Ve;6<ZXNF?V=ZqA>)CA{R)UvJA@l~1cK8NRR6yvq4l=dm4>yUA=?p3=2tec7gLpB("
        "yjGHPl700000000000000000000fS>Y|BuSDaNs=T<`ns{-761SM00000000000000000000000000002+S45H|Ns{!ls`Y*G0_@?wP5"
    ),
    ("every type", "parquet"): (
        "c-"
        "o~`4Qx}_6~2CUY{w+dPjer3XLYXCxM4C;9LK?qtk9yS0y<SFs*zg87CU|puX}NV{me+yj)=jQc2U()x^@*R6+>EwqP1nvB5kc0cpU{MDyn"
        "tspcOOS=q9?kY(U4ndgtEvAJbR1S@yl>o^!wNo_pT8=RU8wb2y9<cH@3L|IGZ$Rv)&*(2ku5eet`{(9dXkWMm|pv7vW2{y6IZ1x)F{3H-"
        "{ovzHtui0Z#<wJqom_YF6@Bv1(7foICEUTQP}amaFa4`W4deZTk=E5UpKdtv@ZC9}1-k=RH}=`sqwIsbxNS#1S=bM7yPO<^-LcIV|E-"
        "h$q}_e_~pwid%PkCv*832xrL105?JJm*q8ybB*ZvGau4QfEtr!TddsU09Cd@!Kz|KHi5veDQ<%W)t8C|2SLu$ok~Vm9|rj-"
        "yA!=e#lbz`r@@ZXP=!tcE&8E)fO9i<!H}V)!7yJ_}syrP7_FC_~UZ-6Td)c{=!Vwt>9w#^~(A4jOkJh=xgn@S+^FK%J-hy-eQ(l)t5fq^3"
        "&EYSkcqlzfqBa0lX6b@%-"
        "E8OcT<v<Ih9ix$1jvw+o#(vi)amN=Vn@xg+oY+B7o<fAx6ewKt~!wqy15lkqd_c3aVJKVJNIIi~G+0AJp>>#EsCGoPGtqN$6A-"
        ")@vJ9ykxbIrhu<+-"
        "4YNN6m}gcV0_1NuZnYApU3h(UYG6$^vNZ$Otq1gDJ$VI&^EZgkr(HQ?noa$!dyn45M1*%KeK#<!xiU9*c$iFym!ylEU_{TCFB`I<?ax6M;"
        "y37!xxiqo%2ec6!wQrc?JH$gKKQC+f_tjjLX|Qeh%Dl~z4*@5!+td>xhEwVLEwZGmg0%^$ueyQYYGb4~u}M8n1^FV?=*Zbv#%XLgL`kN*7"
        "VZcdZ*{$JfS*f{p^J+JMZTHd$o)$JFqqtZ>cqMAi&bxNj&Xrov0IoeRwl71Ufg6xoj>`*o++kC7OXGoHQB;W^S=^YEs$zq97#r;-1DT{k-"
        "I4g^@4LC20*BbCvi!4{|>Ws2O#hrGl+Cz;hZl4Qp0@2I5$>{k-"
        "c$>nqw+U~M#kpqc9^I*rz0!;YZB%wk(_m*+ys|+|r3DTLAhSCek0qUCz(6EEX+zjXBq0e;%1NYb(uuH(NSUNdnrF*!qw!7`w!yJ&@_mK$g"
        "qr{xz!Z*w&53WrZm>a5Y;Nqwk~KoC9r(+*6|B%xuPA9s<T{(8?LI*vvx)pT*V!8F@IBn_3(=E7^^92P?1-"
        "|yIfK?F7Q}}@@A1vGDf%YjccBwSZ}#~#H!Q`Z&v#K8+hNRPHz#kACR@{dF6l>6P!>dN8wyD320oYL^1yQ&<%!Z5aFduB3KH*;$C68SA=d8"
        "od8_R~<ip4twL2l7ENN_G?QDY01f2;e2JmHVU9^Yif=O**Py!+L_bl#UkGH@>A#g^4^Ax^<eK05_q`D!sK%yHNss2i+F1FxqN@Y{11WNS)"
        "n+v{UNoa*et3E8#bsepdd+TD%vd^~SLCWn^xU-adHE@?0@DriKTWGr+ICUc<*E7IHX<Q0TMs{&BxZkR{h(6h(NN7fN(V#Wb{zRcwf=JU<j"
        "$<~s$Ci*vsnn7{Y9k|4iEQ?FtqTGvrMSG|d~miQq19ha0^aLr7d&&q|Lrz8m~I_^Bqm2<t0j017O1P-"
        "^%_|424)!@s4T`Fw$z5dx*%R~64iKB?Fs2tkXjNiZDgdI^}v4iv@eJkJ;idkCWB>1Lc2*ciG-_OYovdU(7)9#hfAS{Vjz=egQww)srQg35"
        "%PMik^BH5fBdEe<g})!kNQw!Lc7N_iO|<;jr7L}{YizsNlAFg^)>9K;67JEy#-YPnCo;pUbqerd(MM>>|-5xz>q|iqMSh6EWzg&CF-xvdJ"
        "RdS&!1)7R@Flis6$R5WpSvdboD#f4Z*!l33@Bj29{7|BhgMTNga&8WQY%`#+2!9D1dX#338W{AMnVMJ{nMB*nM7z#z~BWdY&$*<x&NwWGh"
        ")Ac!iMhIr1Z9l4Ky0?tjF-"
        "K^QM#+@n7uF<_)OfJO4}F4$?=oseE1q?Q~MZKR`)%fw~6WfsQ}`?`y@2c7JZmJXPh@GQ!30w;1y#i>co<K#9LQvxqeAy2EU&+?p*S;}V$9"
        "%ne@?+y9GG30Ucqg<NHk98MDH*n)A&w<A203iqr1PWrlI4TB00m%f&z(7wZKxqnrfpyaXq6vorxzsqBpN6S<SeDOopwFg+0vA%a(i0N`m&"
        "yem2}!746~&vN_?)OBA}T^KK?oDMF%{CMLb4{1tT2(%mWisEj0q+)QG{0^71XbR;Lb3^aijcrO6ZD1{FkWkWqNoxb_4iuEadOg2x5AI$c+"
        "$0fFRtXF~l_nsN!Y>#H^sgJt~Y;YZDkXt1vBR#KPx*3Sw$}QbYFYkm5r(f`wTsTFW7`Wg+i*T^5D4G%A{)iba^LVze~MZZ^w3elwR@7g?_"
        "XwN!#4W_F<XTq-"
        "}M;j|noh@TCsKidmWvzAJ<^8FWK(xnhoxc|e4UM;JP5rFv%YQy?Rq%ZQUo=oL87CCY0c;3H>%NO{GoIl(hUe+D<ccqKGknt~zrDB;#Z={D"
        "y_buy>XVURVhKpu<v%Oq67U_?S_VkUWxL9}zyo<xz`v34nUGTqu&7H&H{{Uy{x5N"
    ),
    ("every type", "orc"): (
        "c-n1JeLRzU8~<(d-rP2pmpWlF*|1ITD-+7ZoLMU+QS;U~CypjVnC0b!ke8B*8hSygvxMh}63$A6BFXVo-r}gE<-rIi&%O0@`r|zJ=X2km-"
        "}U`|f7f+=uj}^UY{degrKYQ*fnoy-"
        "0ETqm4su0EJPTsj93(TOfB~!(=%_zW1n|ZX1HT?(Ay}I2FtHXUIKxW97P7!2Ad6#anDFdi<W58e*a(xIBmMyZg?EN5h#@SE(c=xK8F<a0="
        "jv1>*z^zjc(Ef!nw?A)D*5$_+;0a1MF_km#4y8?^|#W^0`OF#ss+jr!G>9_FRTvCt|DW7x0(g$?OYSFgo(m1by{#uBvOj!S`ilPf~D_x!w"
        "PLNg8?y0e;`MG)4JyyJGrNNrEpqEXs!ydR1QGthzv2T^dSa9F#&}a&WI9*o5AC=vK}0lxh@g8YEq3FHI!aBgM<De6dnsPDE4U)3tFSI>%u"
        "-uY{4LW-AUoKU&#|;9-H>_@{=qXbGL}SjMA&U|CYk9og&Am(h;m7V9D~SlIB>b!((Zpt@$j{5MlmhHwpm+F;-"
        "bXDRAb0fHnUQ%!k1h@Rre9Dgb`qT_f0t)vzje*gps$;KeZrWb&0Kc6if#t|k|NufGI5XDj%qr-"
        "f2nLu(*()ifXsWC*c=DgcY3Zy$94*T_~J#TWpt`3J&gEtDcLR#CHY3;ZT1V;lehT#%%uF<ol>cN#fDnZZFB>j7}S?fB4CXIl+Q34f_U0HE"
        "SjowPUaVQXqfL8+*I{+B!g%(DRQYYz_plj;Bv4G?#pPNXVBZ2$zI+;#cl5&*)$QS96|bY;|oFU^a;UgYtc>zgkIDZy|hhzDS%&|Z@l$85M"
        "1vt?~zZOW*!Eaq!ju&8L?2{isa5TJ~eM^pF{680rlChfn00GZiLRx=gnyyB|hyFS-"
        "*r<znJh`MW9NOdWK#eHK#a}bGvzFrzJ%%jsD;ASAg;;m-0u?cs1v{}@wDT)=?vYFO@-"
        "hCGDVwbab=ER3RaXEVStwt_<?95>L>3@H8Grrw};vT6vKoyi!(a*<jJ4%t!Mi0qGHpgVEyH8pEgqF(N#rEP`I`3TRhu?4y#qTnCyZ1uQnD"
        "c%r|Awh#&veE9bz90k3TLD*c+*De^1bmp4*aqIi2P>dhNA)RugzV#D~XbK9G+|)i!QqN`Qp%rPn`!Sqss+IkePdr+3bLO5HWVPzTS;b^QZ"
        "635hpoQFO}cJp2{j(Eik|usP9o{`YuowTv`Zu8by(ZpO!BkOG={jsMrYpxZf~8JRctyLxV2T_+>$AFOG$FXG=1svA*0+q|3%f#j;H#>SeG"
        "KogP{7^PH(mzgmG`m+jQtrU@%A;(+`>p6y4g**<eym3+71@r~o#eYg5XI-IO0tM!fFuBy6In-E@r!x>oeDhAw7-"
        "^!oJ+VN65j5XhdTl|6lS{nYEac*UkGuP$20`8n}?9Jum`HqDK;t|if+)+Q2SBIw=Wm!yRt!yZH{g}27fzD3qIeF%4RWSdyRIs|HRa+~H?l"
        "3>NDdCApdywiQLX;-ft0y@%x-#&@OUl{zn`^}dp$Gy2f9}kl+?v6&j+33kQ-KyYTb7b9FN=S#j!^@dyE;7d9C08146E%T-"
        "tH@IS}pG7mS`78_Hlw&S*-"
        "kQeJs(^m0okidjoN49|23>J~jAkv2n3UZ=&g$%FTE8lP=8a*hPPg4DqZB^2>{#oNkcC|1>f^&fPno(M!#*)=9rhF?z%Hxj-"
        "7iFLTblKHCkT+^0{&H<maXRZs(MpL5Hk?9)U~$yuK8m-"
        "51@Kz_efUm~%lnotl}i>MwqKvx_6?#CIY<yq~{a}A9prN!GhrB)M3C7vGMp6Q&p!eF`!)2>hAUE=mvHNVtGM46fF+P{F@J@?6|-"
        "z7Fn+I5ibCktCrVSQ6y7IQ{E!)!Y`*)0^lIB`)r5dHMjT*OHGqv9*?Qzv<EeQaG5Snc!HIYQy<6Zcd?dsrVYpNesNW3qJjhv*P`qvM(Uo{"
        "aFM47pPg;!xk)%JCLf*RAq8&cCYf&SA{UnVmmowBuv6)qQe}ZU)!{JX!T{I|XgB?bqtQ&{ip9poZBN@scE7PxER^sAbm;<v;!pR`>IKRO-"
        "Q3LjFQ%p?9gqIx=*ln5>_^p~vJ-dNd?M`cQON_zAD|;wszeD{FkUE|l7pja`T+Ov$yBvb#=?(AtakU8Ued`SA{k{<VUZDf4F)CHO-"
        "*WqV6@eDBr0{<m@?GkU-"
        "!epi6`^UO^R&Ds0HyyQ2C5vq@Wv^Q=F_O{TdEY=<H%P31v@@DHa$uK>VZR@N<VvBf=3FFq7XR|@pk~DEgjPO;eyfNCKo}UvJ`^<Ru;x<~d"
        "<@ag1ZdcYkmpqYVHR`tLyISYC@eWo+O#WKm>(~liLNy!`8{C%8E?4oVw07rB<XL{|aOq$MjuM*4X!~UBTH}z1W0b-"
        "o&VqdO{)}duq%HujKTv9DlQP|$de|^6;jj2t$p#Chak>k(@v_G!Jxn%a4iSVn>PaLfGqPl-t!`N@B-"
        "eSp<ag9j!xDpy_k(vdsr55`uOqVrlEEpT--;SO(Nqae=GR;Yx=*h&`O`oEnMK$U{A|z_cXR7L-iUs)$7yK-"
        ">8!`dBG5RYhCvvLM3|LGfVRAgq-rKkp->*2tw#R^!4ZrN"
    ),
    ("every type", "avro"): (
        "c-pO2OK8+U7;aTs6fN~Z5tX_OVlB+dX0x`t3ra;icoM-|sY^DQU1!NAHJNB1)ZX+W2<oAWq8A^Rdg#eh#e-"
        "5j6+QISi|s)#g@TV$eN2)~GMhBB+alzW%>VuWH~;+eeYsq$wD0MWZW{V&Q@)O>(njwjAmgJ5<bi=?-"
        "B17onpCyliBwb(eJx?6DkjJePkJjw`qc#u1I<!Z`dZX=6-gQxfj~he$x;c(+e>wL5-T7tOhG>dj;6pG;lk4lT#dq2T`P0(B7-kQ@g-"
        "H4_yjUc0wtP2(Ji}SybNd93`ovJlK6*F!efXz3mS~8l3K_W()6Q=C+NqFz2`EPCH1O{sRz-"
        "3QF@lx#JUFZIT}twkljBXwSh)zLUzmCglr+>lgqY5PRRP~GF*0pjqJp&vlFugA?4E(23q1L2K<B+mtdA9C=nFT&mQwgaT~$SpJVb9T;=3<"
        "?m@VK4M|q9Z0IJx4&5eG$lOL5lStK3uNDN7Qn5^uBzn>!GRT)C)kJ&-LIVRb@!vTR!)ii-"
        "m6~V|fJqG8L~I0BZLF53)v~Zs@V>>3svXqi6j`Y%jkR3fc`b;3ZINGvm9rw&HgSb<f=qs&Sluy6Jkzi{8N%SE-"
        "h?#`8QVLuhC7VV=vK(&HYF3Zq<-xgH=}yO?{2PHz#t7c<aoKPQ~Bzmkt!9Ego0E=P|}Muy9Jm?!-"
        "SCSsjt|Sy3q|wQZX4nhGkSlM!Eh&@a=%VOWHF_wpqI?PSI4uHXRy}{VgzPT5Qmna&Nl7eeeIkZn3j{$o>h$q3ou42obX8ABS)x!GmNV>-"
        "TXG*Z4im8OU0E9H#E|9%ulDTs;=&y3DB@J&}GNJ_y6k+YC>QGm!}rWMSAGn<b#mmJm`wh8zsJS8M{us_G~q1w*D32XmHvSTHk=#qdCmln2"
        "N(3|T`{ERFKf!3^=r*0sV%1!H7!P_8O_m|%<?`Hh`DTX2WPkpLKslB=k(7Yb{VF&^N88FExK1{S^B;oBUHlBcAtwuu=bS3I}NAstLrV+U;"
        "GZq$a6Dfekx>PyaQ%d6+`iP<-"
        "gDmQm^{Aibp%8F8HYwtYSacAeRp&fgV4Be}|oPOFr3>Lqu#g!k+>uWn7&aLlX+<m+JdE{d4a4p|^{B7U9=a0KK{{Eak-"
        "*@z2VdB%5vv<F~N>4qL7i!m5=WktlG5_(&+Uv#I;Xh(}ZlnCJV`gUP*V2Wx-&gK~4-aY!?>i%8{sHYVa1H"
    ),
    ("every type, zstd", "avro"): (
        "c-pO2L2J}N6i$aysZ=S|_M*s=gS0TKo6XwpE@%ryu@&^<MM_z+$?Q6kP1a;0-PWQAg5LZA1wHr!L=-Oyl?q-"
        "2|3NPv^x(mhil}ua*(9^sW_DX#7D6)bd+*DeH{X{l)f)o`C$w9Reah9ZqlWhT#F|W6O(d6P2kEwB$WXSl2D>L()kO5RhLLHwa(QVjT&dEh"
        "0cc6KJkzANRoga^X35J?Hc(CTOd^-rQX8JdhFn(GVUz-Qr@$5w!t)&5?1r1RRTtt_4qxlW*GyXz6DV*AjP3-6?XiZ5GMwQvAidO;B-"
        ")G`UP0Vm&|uuq%u1<}rw?7cN*@;3JJ+$UnO6f$JBS7}>0V+N+m>7|(Qq1qSpP)SraP%A#XWOVij_h{uGkkjr5Ld*2-"
        "(eavQziYPAyiHTtrWq?u(xq^HXv{f<>O7Mo>CGHs)Q$8A6!9#N{WrA;|BagJb~)$u_X=*siz^eNC>AyN@z1(HhOL7L+yPhUbzjv9li0<#J"
        "6kT_k3pbTA;R|D6MIydD&Isp;;4>=Fm}5F3S88?Wza^*n4;!e?ot%7S|AA}>|7mA=dSw-"
        "q(2t%|Gga#qFGF0Rlb$QAdA*BzInGfldaqs;8;P1v%Kv%f9tIKv1v_d=$$E19?@?PJfm8PyYUcT2qjW@x}s-"
        "^+EI%GcN`9ec~r93x{O6A_dRW8F~&X7Vtj6erp%jMON)>1ie=t>ainRpiv$p9EjVqW7d-^K`~LSn<o|I$qQ#0{IUEho;32ovPrhM-"
        "2$S5LlD_20;E>APvRZ79v#0+kYCu7ljZ~fV|_UK?3U!F=rre@@bg1+lQcOnDF&fT;Ma4CAuS15qt(Fy|)*hT4$yZCn&<CJ@!gKy)C2U;tV"
        "C2@UPSazFD<VN)9G$DGlZ?N3eKie3KD@d@+xad6+PVo>&?cq2n16m2Im<go?+=6QBZJ4l(f<`2w6edrWed)a4i$k5ZtisRs&Mn$wDL@eKJ"
        "ongZ)S+sV@$k5Z_m{kDl4p+G+O%OM|6Rc8m7b$4pR@_O)>-p`+$TO?Cw8*?L%pS_)09NGYrFHirGE@lTMasUi~VQ`oI=71z^&I0K!y-"
        "I7~?}G8-+Q*USV0hu#_isQw@^0bL<q!4q;}r4W)7JJedcC)~^K0kH!y$0E?rgo@dW^u2jdR2G+n3%vZOs-"
        "oUfur;q@4jUxFZ3;vfuf62Y^9rfy0B+g+tr(wecrILtm2w{{g>kVe$"
    ),
    ("positions", "parquet"): (
        "c-nPS%WKp?7@uV0n&P4sogsmMLvWW>v)j#PUtJc_TM?v-;KfJXJSN>hy4fb#7Ab|EiXiwec=B-;X$27!1-"
        "%GT1i_PvM?Huq54O&jZM#~{CEw%s{eIu~%}o331sw{o4KKkTKfl*n)D{3Zc2fk&ccjzl<ZEji@1{4V-"
        "=3P%PHN{1<7aMUpS=JtKYaa`rw|BW8W!Q^$1m$+3N-"
        "~NLUEMCc3ci@9e=)&O3)?PfKP7Sdz@itum{~)0So!pnLFHCb^VP*Bl0*eONS$)IWb{Pn8m&s&JReu8?v@TkeAUAzRd=xxqoO5(+XPU;1y<"
        "}4)Z>7&_zkQHMK7`EuYXGz)TiMW3K0uYkf2BW<mAg=GN9BMPW#R=2HD2y7+*_07}b>tmS|LGjdiG<dHfkpftMAq4!*FmCK1r4dnN<y>~Vs"
        "YwRE(&(_6$E!rwTpHomluXs2En3h1b=y<G;-zqc6&3)opyYucY0fGEKqI7u31Sma)tOyXHyD4}Ypj95Fb0T`mAEg*gI^YnW#H0{k?-"
        "NO+a$f8OJs=(QY+{jcwiwx6GG|J+`6ZQM)TSE6;lPenO-)h-"
        "&rzEtO?5ruJCWMFyri;7S+CS94WnAAX==}$V}(15qqQNKA9x|5K*~n65pJ(HOY=@(Q@2gQIB>CvSuOT@c(Lo*UFs)oJ2(s$u@~Ve4j9?8_"
        "Lq2dN1TrKe_1~m5uFYluV?yrdl^Xse+c$)+$GpC<D@Zl`RX!|&J7Q^Fc;zl5=N|4FY5K8j`P;Q^Br7om<`7$8zo{@>a|J7nlv0zb<1v<=n"
        "bQ0*rkeXl7@al*63AaxA74VK$||}U;9t)^Z"
    ),
    ("positions", "orc"): (
        "c-"
        "r$1au#G@;9?VE;b0D62w`A&Z1gNCEg?bR(!+$XpvOWQX4@`Z_rK(SMcYG1OUGANu&Gn!po@wSlLUh{P@gatGXn#I5Dy2l5E}=B0H1_N00T"
        "P%g9DQSCj)~Yqkw=O1A{i25t?luCMVP|02R0~@g<}%Fvy<R$jhL>!|Z6F(Ye5JrA}GG|E~ri>Hjxu2(>uA`BRPKsa5$xmr^JHF25igxM{T"
        "`w|E86okfq69wzW5Jh=3jfJ2q8?EGOdqxFV`1j`Q<mxh`$hINb#j}ydh9Md>@^q`J_!ouYVs}8PFId)L_$dMB&M`uo(Iaw-xLc}D+qcIcW"
        "*Q6Xfn5TO1=+v2WW=)BjvTpiJr6Z{+8A*9bi8)zGY*PdqPKqoQo0cZFbQ#CSDI!ysX|Wb<cyJ{>OZB8G$K;bI&wF3jU8&<Cn)LDG_u}KZO"
        "Qu<fmwRRTWqE43Sh8QJoT)nVXC>R2FddmQj67jgGH1N9VwjE|3;XrU^H*mTYo}}L(v_-"
        "C1`}0gbhtP%IJfK)m1o~9AkE&)Fu#Rk!ufXw2hTSvHW_wa4LBckUWkF?7NY>8L_>ps5)%WDhP?r2(-&rD{~%`x01z~{{{"
    ),
    ("positions", "avro"): (
        "c-pOyKTE?v7>5-^oWw!uB6u7QqKWvYt(wWfK?;(hqljGZ-ZUrIT)bQ@QZfmG-$2~l9OL37g5N-"
        "jpsU}+OVe6|b<*+2@4ffA_i<|{qZ0*krsQ%&eQ1#Du{PG{Az%k9pi(hx;ea&KtVvCPi5>^RBJ3Qt`;Es19EU{vrtLkBwBkYCWG1PJRZ}AA"
        "A%fCb!~@jwIrU9uAV32{O12P>P^6^-)~DE<VP|c%xKZ3(FBQwN^@R*&G=K^D4dp7v10s-_;F`-"
        "I!{#sn(mo(YboQO$v{HN&Pj}5w$$(BW@C4CN$Trz2daBQu<rHe5>OF~11Bu2%lWIfAnl54`=P-"
        "YwHO#4k(<V=~IA$CCm*doC{$eX{_ZRG6Z5yv6mG;g4*8SZ}a`~84=91fS=U}1y(0Ow^?(5R7wP@|xq`E!xad9>Oyz~BJ{1bvu>$3"
    ),
    ("named types", "parquet"): (
        "c-"
        "obeOK1~87{_Nf+wD?ojnWx*Wx=qRrG+G9lRlErgKtCxr6LHnn%(TAT}je*vs+S1!IKDzhx$0E7r~1Po<s!?Dk?q>7DWVaJ@|wkL<Kz=XEu"
        ")}Ew(x=JKy~0`~BzfCA)v?paucl47b6jw@!RoCqteLc_;v|=@fZ+En}q9>Fhpc_S%-q{9}-"
        "MJNI$}kv(n~eE9M6H+BW?&aZO$e$s!5(LmC^5v-C?xEo&o{>5AY9ARf6pMLG%yO9Bh2G8FUD`Xm`;EPLd-"
        "f<OFSc0Y>w27}qRdFq_uMGR6HD()p{`IW;cci?XIXB0B`0WD+jvfC<F=;(3iJVCzk;_saRzfwouUsyZE<w5mnJq=>E7l<S!IHKpv9<mm)6"
        "13iyP7T|0gfZ!MJ4D|qXotbCDcww^DG>#PCWC$0;-%Mx4XsBjU0w;WE5mYMh~_@4sL*~JVbjhi|R&I=N9#LqOTt_&7-"
        "B*j>4m>c}#+xr6B0#Wtq-"
        "*zyJgy;~o^`g@*Cu!8UJ<cuAIqR3MXW^a_BN$l{PgJQ_sfsxZ(8y1c8d+&kGeq}5}=03m<yuoK<pU<5SbMiqC|l84ihRO-`=pKK-"
        "g`x@R}#g`w&vl}9I3k>xm)ud%@@FF)0(B)PrquCaydTt$3P#~3JTn|3Opiy<6rS!5=FE4QOF7LKNgzmP$BTc@Op6_V}71U?GCg0j`Vm05F"
        ")b|2Ue9=YXr3&aK*GX~)#5E?)VF!nusc|d{c*50lmNNxJe^t*~IA?|}vnX;}C=df;hn2wwwnrkx%qY(5;uCgSp|FxtijM7O93`YwrU<2^q"
        "9MhzC@QJL(+X9zkW$d|G+!sFHd)fLG10Snu82c5FB501yq@byl100fnNWp|)mh`e*?65LMGt!wkCaw$A*ZnlBXzu|j=N0|IrAdpx+Jwm^w"
        "x>V)rjF4AnqC0?Fkn<;k+G~#CFjdD+IKN)*sOVU50Dr%s_uaPnhvoJc^B;{=TGXB;zLT&Bn4ZtR>=o@l3QQqvM3uEe(-"
        "BW8(vU`T*EZKK6eAd9_4f"
    ),
    ("named types", "orc"): (
        "c-"
        "r$1au#G@;9?VE;b0D6uw!6&Jn3;#Dg&cpAYYntot~SsqL{NSv$CdGvMuvt1~vv4po*X;U=^G|6^eRcvC2SsMYULE&9GQwh$0h^F%U(Jd}*"
        "qBdds+&6_;@-bIt=wssJU0Ad-B1Y3gcyEw}`^85o#OF`i-MWMFV(VsQX+nI|$&W`=Tk85k-IDhw-"
        "(SQ&uoWEdEd6Ao}mEL>zTi}O@E69Y(8Kn^PU-"
        "<dIF8t19M>=5B83=FZSHgYu>@U%QM^UYe*E!Gkp!*c(>Xs^3k`{T#$(szHyZRkDUHJeNBRzcuV&)#c4Dl;A)nwE1iFT$C#cdf;ZS-CTEnt"
        "eYCP5vLZ4(N2R=SdF}_!1rnJx?%u^gPK#B+2lKvB9Jy!)wL{d<h*7o=;-"
        "(;waqsN{X?ybw)|=l8Dl?2}MpaXS`x!d_>utd_>)ZY#a>j^z^`fXHkge>D1+8uwi1D+T-"
        "Yb*npvR`jVqFdUIVin8vyJC(pRBOiM>ykY7t<H_x-P*HVO51n>6SR{!wo?)@(RXE@57C}7U-|GxKo;+205Yx)9z^R}4JU9H!pbZ3EG!-"
        ">z5CnQcp{te8w`&m<OkaX@qPvdltM``8OZL3^6_8RZheBXLiL?x?#%XHVwdFk6sX8n4+X2z^i`JFG7KU{ldcX!MFBN1;W&s9D5Rz+KUPn3"
        "=1E8ceT^wpc3MgJ*&URCt1{`$qL@biMXT)~od+m>Cp^GfsUq~^XitV{km?>l?r@1{dx-4dGoiyeJgB~FSlcHZueFwz$-"
        "v|7;{)n)0>d4B0?%_oz7{;4>r;U=h9AQx;gJ@Ig<ud9Jo>yK+s@5WnNRPMD~-"
        "|O&BeUbjJc#efk0*n$34FXC`3_Kc92AoY_n3?^9oFxF?vk#5"
    ),
    ("named types", "avro"): (
        "c-"
        "oax%}N_l6gK#SxDY|Bh+V|Hs&FIC7=?_BnpUMCVi#$lNQif4PU4lD8J)Q!i87#zcA=Z@yA`Bw(4B$>pTJje*9WMZ^vq;3xoK4BZsy$Y@BC"
        "~Td#RC0cIZ0up1BJ(b}@WRWMdzQPFye@*CLeItQP)DW(dIF3I}0%MBhGczc8$}NZZ8rg&;H$sqi`|8Wxzm#zZ+^*0AXDBP`}95l)qxOcYz"
        "37=(a*%)mYF*hJ4G93l9w1tp4@3iE{|dgvEt%5aP5*?=awjGkOw0iKi56dA{|%5`nkzPYFYeyr7dWj*O~yZVSCH^Bh6nrSI_1T&G^e4VJK"
        "3yP_qm^?L0-{)4jU2BapyY%lYLl6m6lbm95n3!~{b<m4JDVT`v!*p<Vqu8Ec64Dk3kdSEuz2PiPYm;#`lpKQtp9wA-FXIu!2X;1?^n*k5O"
        "&NxdULwEOUH26&l&WXuqAYhYq+VgdgCu^u*H?LrF-"
        "O7{qb*YP6#kF9K*^))dP*fefi^uy)lGIt*fVquJz*?TbuG^_N<rVr`1$#t+fSQ6e@}h;To_s&+BJ=xo%iga*}NJY-"
        "}sX1PhAiE`jNi7U%C7Gp|CC=-b|bnFHei#Qy*t$r%&I$d(rIgQTYo-{#qa"
    ),
}
